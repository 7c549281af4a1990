//! The loop: loader threads, forward on the caller's thread, backward on another.

use crate::device::{Device, Stream};
use crate::tensor::{Tensor, descend, matmul, upload};
use etlink_tracing::{RecorderFailures, RecordingSession};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{Builder, Scope};
use tracing::trace_span;

const BATCH: usize = 32;
const WIDTHS: [usize; 4] = [64, 128, 128, 16];

/// Trains for `steps` steps.
pub(crate) fn train(session: &mut RecordingSession, steps: usize) -> Result<(), RecorderFailures> {
    let device = Device::new();
    let weights: Vec<Tensor> = WIDTHS
        .windows(2)
        .map(|widths| Tensor::new([widths[0], widths[1]]))
        .collect();
    std::thread::scope(|scope| {
        let loaders = [0, 1].map(|number| loader(scope, number));
        session.start()?;
        for step in 0..steps {
            let Ok(batch) = loaders[step % loaders.len()].recv() else {
                break;
            };
            let numbered = (step * weights.len()) as u64;
            let outputs = forward(&device, &weights, &batch, numbered);
            let gradients = backward(&device, &weights, &outputs, numbered);
            optimize(&device, &weights, gradients);
            device.synchronize(Stream::Compute);
            session.step()?;
        }
        drop(loaders);
        session.stop()
    })
}

/// Creates batches, two ahead.
fn loader<'scope>(scope: &'scope Scope<'scope, '_>, number: usize) -> Receiver<Tensor> {
    let (sender, receiver) = sync_channel(2);
    let load = move || {
        loop {
            let batch = {
                let op = trace_span!(
                    "loader::load",
                    out_shapes = ?[[BATCH, WIDTHS[0]]],
                    out_dtypes = "f32"
                );
                let _op = op.entered();
                Tensor::new([BATCH, WIDTHS[0]])
            };
            if sender.send(batch).is_err() {
                return;
            }
        }
    };
    Builder::new()
        .name(format!("loader {number}"))
        .spawn_scoped(scope, load)
        .unwrap_or_else(|error| panic!("no thread: {error}"));
    receiver
}

/// Returns the input and the output of each layer.
fn forward(device: &Device, weights: &[Tensor], batch: &Tensor, numbered: u64) -> Vec<Tensor> {
    let _range = trace_span!("forward", annotation = true).entered();
    let mut outputs = vec![upload(device, batch)];
    for (weight, seq) in weights.iter().zip(numbered..) {
        let input = outputs[outputs.len() - 1].clone();
        let shapes = [input.shape, weight.shape];
        let _op = trace_span!("aten::linear", ?shapes, dtypes = "f32,f32", seq).entered();
        outputs.push(matmul(device, (&input, false), (weight, false)));
    }
    outputs
}

/// Returns the gradient of each weight, last layer first, computed on a separate thread like
/// PyTorch's engine.
fn backward(device: &Device, weights: &[Tensor], outputs: &[Tensor], numbered: u64) -> Vec<Tensor> {
    let _range = trace_span!("backward", annotation = true).entered();
    let engine = || {
        let mut gradient = outputs[outputs.len() - 1].clone();
        let mut gradients = vec![];
        for (layer, weight) in weights.iter().enumerate().rev() {
            let seq = numbered + layer as u64;
            let shapes = [gradient.shape];
            let op = trace_span!(
                "LinearBackward0",
                ?shapes,
                dtypes = "f32",
                seq,
                backward = true
            );
            let _op = op.entered();
            gradients.push(matmul(device, (&outputs[layer], true), (&gradient, false)));
            gradient = matmul(device, (&gradient, false), (weight, true));
        }
        gradients
    };
    std::thread::scope(|scope| {
        let thread = Builder::new()
            .name("autograd".into())
            .spawn_scoped(scope, engine)
            .unwrap_or_else(|error| panic!("no thread: {error}"));
        thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn optimize(device: &Device, weights: &[Tensor], gradients: Vec<Tensor>) {
    let _range = trace_span!("Optimizer.step#SGD.step", annotation = true).entered();
    for (weight, gradient) in weights.iter().rev().zip(gradients) {
        descend(device, weight, &gradient);
    }
}
