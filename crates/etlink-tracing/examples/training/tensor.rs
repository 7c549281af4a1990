//! Matrices, of which only shapes and storages matter here, and operations on them.

use crate::device::{Device, Stream};
use std::sync::Arc;
use tracing::trace_span;

/// A matrix.
#[derive(Clone)]
pub(crate) struct Tensor {
    pub(crate) shape: [usize; 2],
    storage: Arc<[usize; 2]>,
}

impl Tensor {
    pub(crate) fn new(shape: [usize; 2]) -> Tensor {
        Tensor {
            shape,
            storage: Arc::new(shape),
        }
    }

    /// Returns the identity of the storage.
    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.storage) as usize
    }
}

/// Multiplies `a` by `b`; the flag of each selects its transpose.
pub(crate) fn matmul(device: &Device, a: (&Tensor, bool), b: (&Tensor, bool)) -> Tensor {
    let rows = a.0.shape[usize::from(a.1)];
    let out = Tensor::new([rows, b.0.shape[usize::from(!b.1)]]);
    let _op = trace_span!(
        "aten::mm",
        shapes = ?[a.0.shape, b.0.shape],
        dtypes = "f32,f32",
        tensors = ?[a.0.address(), b.0.address()],
        out_shapes = ?[out.shape], out_dtypes = "f32", out_tensors = out.address(),
        schema = "aten::mm(Tensor self, Tensor mat2) -> Tensor",
        tensor_device = "privateuseone:0",
    )
    .entered();
    device.launch(Stream::Compute, "deviceLaunchKernel", "gemm_f32");
    out
}

/// Computes `weight -= rate * gradient`.
pub(crate) fn descend(device: &Device, weight: &Tensor, gradient: &Tensor) {
    let shapes = [weight.shape, gradient.shape];
    let tensors = [weight.address(), gradient.address()];
    let _op = trace_span!("aten::add_", ?shapes, dtypes = "f32,f32", ?tensors).entered();
    device.launch(Stream::Compute, "deviceLaunchKernel", "axpy_f32");
}

/// Copies a batch to the device.
pub(crate) fn upload(device: &Device, batch: &Tensor) -> Tensor {
    let bytes = 4 * batch.shape[0] * batch.shape[1];
    let out = Tensor::new(batch.shape);
    let op = trace_span!(
        "aten::to",
        shapes = ?[batch.shape],
        dtypes = "f32",
        out_shapes = ?[out.shape],
        out_dtypes = "f32",
        bytes
    );
    let _op = op.entered();
    device.launch(
        Stream::Copy,
        "deviceMemcpyAsync",
        "Memcpy HtoD (Host -> Device)",
    );
    device.wait_for(Stream::Compute, Stream::Copy);
    out
}
