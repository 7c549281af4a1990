//! Tensors that a recording does not produce: data and weights; and the sizes that they show.

use crate::predict::arguments::Tensor;
use crate::predict::dims::{Dim, Factor, Shape};
use crate::predict::sizes::{Size, SizeRequest, SizeRole, Sizes};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Use of a tensor by an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TensorUse {
    /// Tokens or categories that an embedding looks up.
    Index,
    /// Samples: the first factor of a product or of a convolution.
    Data,
    /// Images, whose inner dimensions are no sequence.
    Image,
    /// Rows that an embedding looks up.
    Table,
    /// Weights, statistics, or states of an optimizer.
    Weight,
    /// The second factor of a product: weights, or in a backward pass samples.
    Factor,
}

/// A tensor that the recording does not produce.
pub(crate) struct Source {
    sizes: Vec<u64>,
    is_integer: bool,
    /// First op that reads it.
    op: String,
    pub(crate) uses: BTreeSet<TensorUse>,
}

impl Source {
    pub(crate) fn new(tensor: &Tensor, op: &str) -> Source {
        Source {
            sizes: tensor.sizes.clone(),
            is_integer: tensor.is_integer,
            op: op.to_owned(),
            uses: BTreeSet::new(),
        }
    }

    pub(crate) fn is_weight(&self) -> bool {
        let is_factor = self.uses.contains(&TensorUse::Factor) && !self.is_used_as_data();
        self.uses.contains(&TensorUse::Weight) || self.is_table() || is_factor
    }

    pub(crate) fn is_table(&self) -> bool {
        self.uses.contains(&TensorUse::Table)
    }

    /// True if an op reads it as the samples of a step.
    fn is_data(&self) -> bool {
        !self.is_weight() && !self.sizes.is_empty() && self.is_used_as_data()
    }

    fn is_used_as_data(&self) -> bool {
        let as_data = [TensorUse::Index, TensorUse::Data, TensorUse::Image];
        as_data.iter().any(|found| self.uses.contains(found))
    }
}

/// First use of a source: row of the host trace, and number of the tensor among its inputs.
pub(crate) type SourcePlace = (usize, usize);

/// A read of a source: row of the host trace, and the source.
pub(crate) type WeightRead = (usize, SourcePlace);

/// Sources in the order of their first use.
pub(crate) struct Sources {
    pub(crate) all: BTreeMap<SourcePlace, Source>,
    /// Numbers of rows of embeddings.
    pub(crate) tables: BTreeSet<u64>,
    /// Numbers of tensors that the program stacks, such as samples of a batch.
    pub(crate) stacks: BTreeSet<u64>,
    /// Reads of weights, in program order.
    pub(crate) reads: Vec<WeightRead>,
}

/// A size that a source shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownSize {
    /// Role of the size.
    pub role: SizeRole,
    /// The size.
    pub size: u64,
    /// First op that reads the tensor that shows it.
    pub op: String,
    /// Sizes of the tensor.
    pub shape: Vec<u64>,
}

impl Sources {
    /// Returns the sizes that the request states, else those that the sources show.
    pub(crate) fn sizes(&self, request: &SizeRequest) -> (Sizes, Vec<ShownSize>) {
        let mut sizes = Sizes::default();
        let mut shown = vec![];
        for role in [SizeRole::Batch, SizeRole::Sequence, SizeRole::Width] {
            // Without a change, multiples of the width need not be told from other sizes.
            if role == SizeRole::Width && !request.changes(role) {
                continue;
            }
            let stated = request.stated(role);
            let found = if stated.is_none() {
                self.shown(role)
            } else {
                None
            };
            let old = stated.or(found.as_ref().map(|found| found.size));
            *sizes.of_mut(role) = old.map(|old| Size { old, new: old });
            shown.extend(found);
        }
        (sizes, shown)
    }

    /// Returns true if an input of the program can have this size: a batch is the first dimension,
    /// a sequence one of the others.
    pub(crate) fn has_size(&self, role: SizeRole, size: u64) -> bool {
        let mut data = self.all.values().filter(|source| !source.is_weight());
        let mut weights = self.all.values().filter(|source| source.is_weight());
        match role {
            SizeRole::Sequence => data.any(|source| {
                let is_image = source.uses.contains(&TensorUse::Image);
                !is_image && source.sizes.iter().skip(1).any(|other| *other == size)
            }),
            SizeRole::Width => weights.any(|source| source.sizes.contains(&size)),
            SizeRole::Batch => {
                let is_stacked = self.stacks.contains(&size);
                is_stacked || data.any(|source| source.sizes.first() == Some(&size))
            }
            SizeRole::Layers => true,
        }
    }

    fn shown(&self, role: SizeRole) -> Option<ShownSize> {
        let (source, at) = match role {
            SizeRole::Batch => (self.batch_source()?, 0),
            SizeRole::Sequence => (self.sequence_source()?, 1),
            // found by `find_blocks`
            SizeRole::Layers => return None,
            SizeRole::Width => {
                let table = self.all.values().find(|source| source.is_table())?;
                (table, table.sizes.len().checked_sub(1)?)
            }
        };
        Some(ShownSize {
            role,
            size: *source.sizes.get(at)?,
            op: source.op.clone(),
            shape: source.sizes.clone(),
        })
    }

    fn batch_source(&self) -> Option<&Source> {
        let mut data = self.all.values().filter(|source| source.is_data());
        // Tokens before other data: positions may be looked up too, but are fewer.
        data.clone()
            .filter(|source| source.is_integer && source.sizes.len() > 1)
            .min_by_key(|source| Reverse(source.sizes[0]))
            .or_else(|| data.next())
    }

    fn sequence_source(&self) -> Option<&Source> {
        let batch = self.batch_source()?;
        let is_sequence = match batch.sizes.len() {
            2 => batch.is_integer,
            3 => !batch.uses.contains(&TensorUse::Image),
            _ => false,
        };
        is_sequence.then_some(batch)
    }

    /// Returns the weights in the order of their first use, without states of optimizers.
    pub(crate) fn layer_weights(&self) -> impl Iterator<Item = SourcePlace> {
        let weights = self.all.iter().filter(|(_, source)| {
            let is_state = source.op.contains("_foreach_") || source.op.contains("_fused_");
            source.is_weight() && !is_state && !source.sizes.is_empty()
        });
        weights.map(|(place, _)| *place)
    }

    /// Returns the dimensions of a source: data has the batch first, then the sequence; weights
    /// have multiples of the width.
    pub(crate) fn shape(&self, place: SourcePlace, tensor: &Tensor, sizes: &Sizes) -> Shape {
        let source = self.all.get(&place);
        let is_weight = source.is_some_and(Source::is_weight);
        let is_table = source.is_some_and(Source::is_table);
        let dims = tensor.sizes.iter().enumerate().map(|(at, size)| {
            if is_weight {
                self.weight_dim(is_table && at == 0, *size, sizes)
            } else {
                data_dim(&tensor.sizes, at, sizes)
            }
        });
        dims.collect()
    }

    fn weight_dim(&self, is_row_of_table: bool, size: u64, sizes: &Sizes) -> Dim {
        let Some(width) = sizes.old(SizeRole::Width) else {
            return Dim::fixed(size);
        };
        let is_vocabulary = size != width && self.tables.contains(&size);
        if !size.is_multiple_of(width) || is_row_of_table || is_vocabulary {
            return Dim::fixed(size);
        }
        Dim::multiple(size / width, SizeRole::Width, width)
    }

    /// Returns the sizes of a source.
    pub(crate) fn sizes_of(&self, place: SourcePlace) -> &[u64] {
        self.all.get(&place).map_or(&[], |source| &source.sizes)
    }
}

/// Returns the use of an op's argument; `None` if it tells nothing.
pub(crate) fn argument_use(op: &str, tensor: &Tensor) -> Option<TensorUse> {
    let name = op.rsplit("::").next().unwrap_or(op);
    let weights: &[usize] = match name {
        "linear" | "conv1d" | "conv2d" | "conv3d" | "convolution" | "_convolution" => &[1, 2],
        "cudnn_convolution" | "miopen_convolution" => &[1],
        "addmm" => &[0],
        "layer_norm" | "native_layer_norm" | "group_norm" => &[2, 3],
        "batch_norm" | "native_batch_norm" => &[1, 2, 3, 4],
        _ => &[],
    };
    let is_update = name.starts_with("_foreach") || name.starts_with("_fused_");
    if weights.contains(&tensor.argument) || is_update || name == "AccumulateGrad" {
        return Some(TensorUse::Weight);
    }
    match (name, tensor.argument) {
        ("mm", 1) | ("addmm", 2) => Some(TensorUse::Factor),
        ("embedding" | "embedding_bag" | "_embedding_bag", 0) => Some(TensorUse::Table),
        ("embedding" | "embedding_bag" | "_embedding_bag", 1) => Some(TensorUse::Index),
        ("linear" | "mm" | "matmul" | "bmm" | "conv1d", 0) | ("addmm", 1) => Some(TensorUse::Data),
        (name, 0) if name.contains("conv") && !name.contains("backward") => Some(TensorUse::Image),
        _ => None,
    }
}

/// True if the output of an op is a view or a copy of its first input.
pub(crate) fn keeps_source(name: &str) -> bool {
    const KEEPING: &[&str] = &[
        "to",
        "_to_copy",
        "view",
        "reshape",
        "flatten",
        "unflatten",
        "narrow",
        "pin_memory",
        "type_as",
        "_unsafe_view",
        "t",
        "transpose",
        "permute",
        "detach",
        "alias",
        "contiguous",
        "clone",
        "as_strided",
        "expand",
        "unsqueeze",
        "squeeze",
        "slice",
        "select",
    ];
    KEEPING.contains(&name)
}

/// Returns a dimension of data by its size.
fn data_dim(sizes: &[u64], at: usize, known: &Sizes) -> Dim {
    let size = sizes[at];
    let (batch, sequence) = (known.old(SizeRole::Batch), known.old(SizeRole::Sequence));
    if at == 0 {
        if batch == Some(size) {
            return Dim::one(Factor::Of(SizeRole::Batch, size));
        }
        if let (Some(batch), Some(sequence)) = (batch, sequence)
            && size == batch.saturating_mul(sequence)
        {
            let rows = Dim::one(Factor::Of(SizeRole::Batch, batch));
            return rows.joined(&Dim::one(Factor::Of(SizeRole::Sequence, sequence)));
        }
    }
    if sequence == Some(size) {
        return Dim::one(Factor::Of(SizeRole::Sequence, size));
    }
    Dim::fixed(size)
}
