//! Arguments of convolutions, such as their strides, and the shape of the output.
//!
//! ```text
//! forward     out = floor((in + 2 p - d (k - 1) - 1) / s) + 1
//! transposed  out = (in - 1) s - 2 p + d (k - 1) + op + 1
//! ```
//! Source: `torch.nn.Conv2d` and `torch.nn.ConvTranspose2d`.

use super::TensorShape;
use super::values::ArgumentValues;

/// Direction of a convolution: forward or transposed.
#[derive(Clone, Copy, Debug)]
enum Direction {
    Forward,
    Transposed,
    /// The argument with this number states the direction.
    Stated(u32),
}

/// Argument numbers of a convolution.
#[derive(Clone, Copy, Debug)]
struct ConvolutionArguments {
    stride: u32,
    padding: u32,
    dilation: Option<u32>,
    output_padding: Option<u32>,
    direction: Direction,
}

const fn forward(stride: u32, padding: u32, dilation: u32) -> ConvolutionArguments {
    ConvolutionArguments {
        stride,
        padding,
        dilation: Some(dilation),
        output_padding: None,
        direction: Direction::Forward,
    }
}

const fn transposed(
    stride: u32,
    padding: u32,
    dilation: u32,
    output_padding: u32,
) -> ConvolutionArguments {
    ConvolutionArguments {
        output_padding: Some(output_padding),
        direction: Direction::Transposed,
        ..forward(stride, padding, dilation)
    }
}

/// `aten::convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, …)`.
const STATED: ConvolutionArguments = ConvolutionArguments {
    output_padding: Some(7),
    direction: Direction::Stated(6),
    ..forward(3, 4, 5)
};
/// `aten::_conv_depthwise2d(input, weight, kernel_size, bias, stride, padding, dilation)`.
const WITH_KERNEL: ConvolutionArguments = forward(4, 5, 6);
const WITHOUT_DILATION: ConvolutionArguments = ConvolutionArguments {
    dilation: None,
    ..WITH_KERNEL
};
const TRANSPOSED: ConvolutionArguments = transposed(3, 4, 7, 5);

/// Forward ops, by name without namespace.
const CONVOLUTIONS: &[(&str, ConvolutionArguments)] = &[
    ("convolution", STATED),
    ("_convolution", STATED),
    ("convolution_overrideable", STATED),
    ("cudnn_convolution", forward(3, 2, 4)),
    ("cudnn_convolution_relu", forward(3, 4, 5)),
    ("cudnn_convolution_add_relu", forward(5, 6, 7)),
    ("cudnn_convolution_transpose", transposed(4, 2, 5, 3)),
    ("miopen_convolution", forward(4, 3, 5)),
    ("miopen_convolution_relu", forward(3, 4, 5)),
    ("miopen_convolution_add_relu", forward(5, 6, 7)),
    ("miopen_convolution_transpose", transposed(5, 3, 6, 4)),
    ("miopen_depthwise_convolution", forward(4, 3, 5)),
    ("mkldnn_convolution", forward(4, 3, 5)),
    ("_conv_depthwise2d", WITH_KERNEL),
    ("conv_depthwise3d", WITH_KERNEL),
    ("slow_conv_dilated2d", WITH_KERNEL),
    ("slow_conv_dilated3d", WITH_KERNEL),
    ("slow_conv_transpose2d", transposed(4, 5, 7, 6)),
    ("slow_conv_transpose3d", transposed(4, 5, 7, 6)),
    ("_slow_conv2d_forward", WITHOUT_DILATION),
    ("slow_conv3d_forward", WITHOUT_DILATION),
    ("slow_conv3d", WITHOUT_DILATION),
    ("thnn_conv2d", WITHOUT_DILATION),
    ("conv1d", forward(3, 4, 5)),
    ("conv2d", forward(3, 4, 5)),
    ("conv3d", forward(3, 4, 5)),
    ("conv_transpose1d", TRANSPOSED),
    ("conv_transpose2d", TRANSPOSED),
    ("conv_transpose3d", TRANSPOSED),
];

/// True if the op is a forward convolution.
pub(super) fn is_convolution(name: &str) -> bool {
    CONVOLUTIONS.iter().any(|(known, _)| *known == name)
}

/// Returns true for a transposed convolution; `None` if only a missing argument would tell.
pub(super) fn is_transposed(name: &str, values: ArgumentValues<'_>) -> Option<bool> {
    let (_, arguments) = CONVOLUTIONS.iter().find(|(known, _)| *known == name)?;
    match arguments.direction {
        Direction::Forward => Some(false),
        Direction::Transposed => Some(true),
        Direction::Stated(number) => values.flag(number),
    }
}

/// Computes the output's shape from the op's arguments; `None` if the trace lacks one of them, or
/// if they contradict each other.
pub(super) fn output_dims(
    name: &str,
    input: TensorShape<'_>,
    weight: TensorShape<'_>,
    values: ArgumentValues<'_>,
) -> Option<Vec<u64>> {
    let (_, arguments) = CONVOLUTIONS.iter().find(|(known, _)| *known == name)?;
    let ([batch, _, space @ ..], [first, second, kernel @ ..]) = (input.dims, weight.dims) else {
        return None;
    };
    if space.len() != kernel.len() || values.is_empty() {
        return None;
    }
    let is_transposed = is_transposed(name, values)?;
    let count = space.len();
    let stride = sizes(values, arguments.stride, count)?;
    let optional = |number: Option<u32>, usual| match number {
        Some(number) => sizes(values, number, count),
        None => Some(vec![usual; count]),
    };
    let dilation = optional(arguments.dilation, 1)?;
    let padding = match values.text(arguments.padding)? {
        "valid" => vec![0; count],
        // padding that keeps the size; such a convolution must have stride 1
        "same" => return Some([&[*batch, *first], space].concat()),
        _ => sizes(values, arguments.padding, count)?,
    };
    let channels = if is_transposed {
        groups(values, name)?.checked_mul(*second)?
    } else {
        *first
    };
    let mut dims = vec![*batch, channels];
    let output_padding = optional(arguments.output_padding, 0)?;
    for at in 0..count {
        let size = i64::try_from(space[at]).ok()?;
        let reach = dilation[at].checked_mul(i64::try_from(kernel[at]).ok()? - 1)?;
        let around = padding[at].checked_mul(2)?;
        let output = if is_transposed {
            let spread = (size - 1).checked_mul(stride[at])?;
            spread
                .checked_sub(around)?
                .checked_add(reach)?
                .checked_add(output_padding[at] + 1)?
        } else {
            let room = size
                .checked_add(around)?
                .checked_sub(reach)?
                .checked_sub(1)?;
            room.checked_div_euclid(stride[at])? + 1
        };
        dims.push(u64::try_from(output).ok()?);
    }
    Some(dims)
}

/// Returns a list with one number per spatial dimension; a list of one number applies to all of
/// them.
fn sizes(values: ArgumentValues<'_>, number: u32, count: usize) -> Option<Vec<i64>> {
    let list = match values.integers(number) {
        Some(list) => list,
        None => vec![values.integer(number)?],
    };
    match list[..] {
        [one] => Some(vec![one; count]),
        _ if list.len() == count => Some(list),
        _ => None,
    }
}

/// Returns the groups of a transposed convolution, whose weight has the output's channels per
/// group.
fn groups(values: ArgumentValues<'_>, name: &str) -> Option<u64> {
    let number = match name {
        "cudnn_convolution_transpose"
        | "conv_transpose1d"
        | "conv_transpose2d"
        | "conv_transpose3d" => 6,
        "miopen_convolution_transpose" => 7,
        "slow_conv_transpose2d" | "slow_conv_transpose3d" => return Some(1),
        _ => 8,
    };
    u64::try_from(values.integer(number)?).ok()
}
