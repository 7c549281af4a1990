//! Matrices on the device, and operations on them.

use crate::device::{Device, Stream};
use std::sync::{Arc, PoisonError, RwLock};
use tracing::trace_span;

/// A matrix in row-major order.
#[derive(Clone)]
pub(crate) struct Tensor {
    pub(crate) shape: [usize; 2],
    data: Arc<RwLock<Vec<f32>>>,
}

impl Tensor {
    pub(crate) fn new(shape: [usize; 2], value: impl Fn(usize) -> f32) -> Tensor {
        Tensor {
            shape,
            data: Arc::new(RwLock::new((0..shape[0] * shape[1]).map(value).collect())),
        }
    }

    /// Returns the identity of the storage.
    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.data) as usize
    }

    pub(crate) fn sum(&self) -> f32 {
        self.data
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .sum()
    }
}

/// Multiplies `a` by `b`; the flag of each selects its transpose.
pub(crate) fn matmul(device: &Device, a: (&Tensor, bool), b: (&Tensor, bool)) -> Tensor {
    let rows = a.0.shape[usize::from(a.1)];
    let out = Tensor::new([rows, b.0.shape[usize::from(!b.1)]], |_| 0.0);
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
    let (a, b, result) = ((a.0.clone(), a.1), (b.0.clone(), b.1), out.clone());
    device.launch(
        Stream::Compute,
        "deviceLaunchKernel",
        "gemm_f32",
        move || multiply(&a, &b, &result),
    );
    out
}

/// Computes `weight -= rate * gradient`.
pub(crate) fn descend(device: &Device, weight: &Tensor, gradient: Tensor, rate: f32) {
    let shapes = [weight.shape, gradient.shape];
    let tensors = [weight.address(), gradient.address()];
    let _op = trace_span!("aten::add_", ?shapes, dtypes = "f32,f32", ?tensors).entered();
    let weight = weight.clone();
    device.launch(
        Stream::Compute,
        "deviceLaunchKernel",
        "axpy_f32",
        move || {
            let gradient = gradient.data.read().unwrap_or_else(PoisonError::into_inner);
            let mut weight = weight.data.write().unwrap_or_else(PoisonError::into_inner);
            weight
                .iter_mut()
                .zip(gradient.iter())
                .for_each(|(weight, gradient)| *weight -= rate * gradient);
        },
    );
}

/// Copies a batch to the device.
pub(crate) fn upload(device: &Device, batch: Vec<f32>, shape: [usize; 2]) -> Tensor {
    let bytes = batch.len() * 4;
    let out = Tensor::new(shape, |_| 0.0);
    let op = trace_span!(
        "aten::to",
        shapes = ?[shape],
        dtypes = "f32",
        out_shapes = ?[shape],
        out_dtypes = "f32",
        bytes
    );
    let _op = op.entered();
    let result = out.clone();
    device.launch(
        Stream::Copy,
        "deviceMemcpyAsync",
        "Memcpy HtoD (Host -> Device)",
        move || {
            result
                .data
                .write()
                .unwrap_or_else(PoisonError::into_inner)
                .copy_from_slice(&batch);
        },
    );
    device.wait_for(Stream::Compute, Stream::Copy);
    out
}

fn multiply(a: &(Tensor, bool), b: &(Tensor, bool), out: &Tensor) {
    let at = |(tensor, transposed): &(Tensor, bool), row: usize, column: usize| {
        if *transposed {
            column * tensor.shape[1] + row
        } else {
            row * tensor.shape[1] + column
        }
    };
    let inner = a.0.shape[usize::from(!a.1)];
    let [left, right] =
        [a, b].map(|(tensor, _)| tensor.data.read().unwrap_or_else(PoisonError::into_inner));
    let mut result = out.data.write().unwrap_or_else(PoisonError::into_inner);
    for (place, value) in result.iter_mut().enumerate() {
        let (row, column) = (place / out.shape[1], place % out.shape[1]);
        *value = (0..inner)
            .map(|k| left[at(a, row, k)] * right[at(b, k, column)])
            .sum();
    }
}
