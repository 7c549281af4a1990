//! All ops of a host trace in program order, with the dimensions of their tensors.
//!
//! ```text
//! op begins   dimensions of its inputs: by tensor id, else by place in a storage, else a source
//! op ends     dimensions of its outputs: by rule, else as its inner ops left them, else by the
//!             sizes around it
//! ```
//! Inner ops end first, so that an outer op's definition replaces what its parts left.

use crate::predict::arguments::{Arguments, Call, Tensor, most_roles};
use crate::predict::dims::{Dim, Shape, fixed_shape, reshape, sizes_of};
use crate::predict::rules::{Rule, by_value, output_shape};
use crate::predict::sizes::Sizes;
use crate::predict::sources::{
    Source, SourcePlace, Sources, WeightRead, argument_use, keeps_source,
};
use etlink_model::HostTrace;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::{BTreeMap, BTreeSet};

/// Number of enclosing ops whose inputs are compared with the sizes of a new tensor.
const MOST_AROUND: usize = 4;

/// A call that has ended, with the dimensions of its outputs.
pub(crate) struct EndedCall<'c> {
    pub(crate) call: &'c Call<'c>,
    pub(crate) outputs: &'c Arguments,
    pub(crate) output_shapes: &'c [Shape],
}

/// Dimensions of tensors so far.
struct Walk<'t, 's> {
    host: &'t HostTrace,
    /// Known sizes, and sources of a walk before; `None` in the walk that finds the sources.
    known: Option<(&'s Sizes, &'s Sources)>,
    by_id: FxHashMap<u64, Shape>,
    by_place: FxHashMap<(u64, u64, Vec<u64>), Shape>,
    by_storage: FxHashMap<u64, Shape>,
    /// Sources found, and the source that a tensor is a view or copy of.
    sources: BTreeMap<SourcePlace, Source>,
    source_of: FxHashMap<u64, SourcePlace>,
    /// Numbers of rows of embeddings, which do not grow with the width.
    tables: BTreeSet<u64>,
    open: Vec<Call<'t>>,
    /// Numbers of tensors that ops stack.
    stacks: BTreeSet<u64>,
    /// Reads of sources, in program order.
    reads: Vec<WeightRead>,
    /// First weight of each storage.
    weights: BTreeMap<u64, (Tensor, Shape)>,
}

/// Finds the tensors that the recording does not produce. O(nodes).
pub(crate) fn find_sources(host: &HostTrace) -> Sources {
    let mut walk = Walk::new(host, None);
    walk.run(&mut |_| {});
    Sources {
        all: walk.sources,
        tables: walk.tables,
        stacks: walk.stacks,
        reads: walk.reads,
    }
}

/// Calls `ended` for each op, inner ops first. Returns a weight of each storage. O(nodes).
pub(crate) fn walk_ops(
    host: &HostTrace,
    sizes: &Sizes,
    sources: &Sources,
    ended: &mut impl FnMut(EndedCall<'_>),
) -> Vec<(Tensor, Shape)> {
    let mut walk = Walk::new(host, Some((sizes, sources)));
    walk.run(ended);
    walk.weights.into_values().collect()
}

impl<'t, 's> Walk<'t, 's> {
    fn new(host: &'t HostTrace, known: Option<(&'s Sizes, &'s Sources)>) -> Walk<'t, 's> {
        Walk {
            host,
            known,
            by_id: FxHashMap::default(),
            by_place: FxHashMap::default(),
            by_storage: FxHashMap::default(),
            sources: BTreeMap::new(),
            source_of: FxHashMap::default(),
            tables: BTreeSet::new(),
            open: vec![],
            stacks: BTreeSet::new(),
            reads: vec![],
            weights: BTreeMap::new(),
        }
    }

    fn run(&mut self, ended: &mut impl FnMut(EndedCall<'_>)) {
        let nodes = &self.host.nodes;
        for node in 0..nodes.len() {
            let parent = nodes.parent[node];
            while let Some(call) = self.open.last()
                && nodes.id[call.node] != parent
            {
                self.end(ended);
            }
            self.begin(node);
        }
        while !self.open.is_empty() {
            self.end(ended);
        }
    }

    fn begin(&mut self, node: usize) {
        let nodes = &self.host.nodes;
        let full_name = self.host.names.get(nodes.name[node]);
        let name = full_name.rsplit_once("::").map_or("", |(_, name)| name);
        let inputs = Arguments::read(self.host, &nodes.inputs[node]);
        let mut shapes = vec![];
        for (at, tensor) in inputs.tensors.iter().enumerate() {
            shapes.push(self.input_shape((node, at), tensor, full_name));
        }
        if name == "embedding"
            && let Some(table) = inputs.tensors.first()
        {
            self.tables.extend(table.sizes.first());
        }
        if name == "stack" {
            self.stacks.insert(inputs.tensors.len() as u64);
        }
        for tensor in &inputs.tensors {
            let Some(place) = self.source_of.get(&tensor.id) else {
                continue;
            };
            self.reads.push((node, *place));
            if let Some(found) = argument_use(full_name, tensor)
                && let Some(source) = self.sources.get_mut(place)
            {
                source.uses.insert(found);
            }
        }
        if let Some(outer) = self.open.last_mut() {
            outer.has_inner = true;
        }
        self.open.push(Call {
            node,
            has_inner: false,
            full_name,
            name,
            inputs,
            shapes,
        });
    }

    /// Returns the dimensions of a tensor that an op reads.
    fn input_shape(&mut self, place: SourcePlace, tensor: &Tensor, op: &str) -> Shape {
        if let Some(shape) = self.known_shape(tensor) {
            return shape;
        }
        let shape = match self.known {
            Some((sizes, sources)) => sources.shape(place, tensor, sizes),
            None => fixed_shape(&tensor.sizes),
        };
        let is_weight = |(_, sources): (&Sizes, &Sources)| {
            sources.all.get(&place).is_some_and(Source::is_weight)
        };
        if self.known.is_some_and(is_weight) {
            let weight = || (tensor.clone(), shape.clone());
            self.weights.entry(tensor.storage).or_insert_with(weight);
        }
        self.sources.insert(place, Source::new(tensor, op));
        self.source_of.insert(tensor.id, place);
        self.keep_shape(tensor, &shape);
        shape
    }

    fn known_shape(&self, tensor: &Tensor) -> Option<Shape> {
        let fits = |shape: &&Shape| sizes_of(shape) == tensor.sizes;
        if let Some(shape) = self.by_id.get(&tensor.id).filter(fits) {
            return Some(shape.clone());
        }
        // Autograd unpacks what it has saved as another tensor of the same storage.
        let place = (tensor.storage, tensor.offset, tensor.sizes.clone());
        if let Some(shape) = self.by_place.get(&place) {
            return Some(shape.clone());
        }
        let last = self.by_storage.get(&tensor.storage)?;
        let elements = |sizes: &[u64]| {
            sizes
                .iter()
                .fold(1u64, |all, size| all.saturating_mul(*size))
        };
        if elements(&sizes_of(last)) != elements(&tensor.sizes) {
            return None;
        }
        reshape(last, &tensor.sizes)
    }

    fn keep_shape(&mut self, tensor: &Tensor, shape: &Shape) {
        self.by_id.insert(tensor.id, shape.clone());
        let place = (tensor.storage, tensor.offset, tensor.sizes.clone());
        self.by_place.insert(place, shape.clone());
        self.by_storage.insert(tensor.storage, shape.clone());
    }

    fn end(&mut self, ended: &mut impl FnMut(EndedCall<'_>)) {
        let Some(mut call) = self.open.pop() else {
            return;
        };
        let outputs = Arguments::read(self.host, &self.host.nodes.outputs[call.node]);
        let mut shapes = vec![];
        let inputs: FxHashSet<u64> = call.inputs.tensors.iter().map(|tensor| tensor.id).collect();
        for (place, tensor) in outputs.tensors.iter().enumerate() {
            if call.name.is_empty() {
                let known = self.known_shape(tensor);
                shapes.push(known.unwrap_or_else(|| fixed_shape(&tensor.sizes)));
                continue;
            }
            let is_input = inputs.contains(&tensor.id);
            let shape = self.output_shape(&call, (place, tensor), is_input);
            self.keep_shape(tensor, &shape);
            self.keep_source(&call, tensor, is_input);
            // A tensor made for the op has the dimensions that the op gives it.
            if let Some(first) = call.inputs.tensors.first()
                && call.name.ends_with('_')
                && first.id == tensor.id
                && first.sizes == tensor.sizes
            {
                call.shapes[0] = shape.clone();
            }
            shapes.push(shape);
        }
        ended(EndedCall {
            call: &call,
            outputs: &outputs,
            output_shapes: &shapes,
        });
    }

    fn output_shape(
        &self,
        call: &Call<'_>,
        (place, tensor): (usize, &Tensor),
        is_input: bool,
    ) -> Shape {
        let nothing = Sizes::default();
        let sizes = self.known.map_or(&nothing, |(sizes, _)| sizes);
        let rule = output_shape(call, (place, &tensor.sizes), sizes);
        if let Rule::Known(shape) = rule {
            return shape;
        }
        let left = self.by_id.get(&tensor.id);
        let left = left.filter(|shape| !is_input && sizes_of(shape) == tensor.sizes);
        match (left, rule) {
            (Some(left), _) => left.clone(),
            (None, Rule::Known(shape) | Rule::Likely(shape)) => shape,
            (None, Rule::Unknown) => self.shape_by_size(call, &tensor.sizes, sizes),
        }
    }

    /// Returns the dimensions of a new tensor from the sizes of the op's inputs, then of those of
    /// the ops around it, then from the known sizes.
    fn shape_by_size(&self, call: &Call<'_>, sizes: &[u64], known: &Sizes) -> Shape {
        let around = self.open.iter().rev().take(MOST_AROUND - 1);
        let calls: Vec<&Call<'_>> = std::iter::once(call).chain(around).collect();
        for call in &calls {
            let same = call.inputs_with_shapes().find(|input| input.0 == sizes);
            if let Some((_, shape)) = same {
                return shape.clone();
            }
        }
        let mut dims: Vec<Option<Dim>> = vec![None; sizes.len()];
        for call in &calls {
            take_dims_by_size(call, sizes, &mut dims);
        }
        let dims = dims.into_iter().enumerate().map(|(at, found)| {
            let joined = || calls.iter().find_map(|call| joined_dims(call, sizes[at]));
            let is_first = at == 0 && sizes[at] > 1;
            let found = found.or_else(|| if is_first { joined() } else { None });
            found.unwrap_or_else(|| by_value(sizes, at, known))
        });
        dims.collect()
    }

    /// Views and copies of a source are used as the source.
    fn keep_source(&mut self, call: &Call<'_>, output: &Tensor, is_input: bool) {
        let inputs = &call.inputs.tensors;
        let first = inputs
            .first()
            .and_then(|first| self.source_of.get(&first.id));
        if let Some(source) = first
            && keeps_source(call.name)
        {
            self.source_of.insert(output.id, *source);
        } else if !call.has_inner && !is_input {
            // an inner view or copy has kept it
            self.source_of.remove(&output.id);
        }
    }
}

/// Takes dimensions of an op's inputs by their sizes: those at the same place, counted from the
/// last, of inputs of the same rank or of an expanded one, then others. Each is taken once, so that
/// of two dimensions of the same size each gets one.
fn take_dims_by_size(call: &Call<'_>, sizes: &[u64], dims: &mut [Option<Dim>]) {
    let rank = sizes.len();
    let is_aligned =
        |shape: &&Shape| shape.len() == rank || ["expand", "as_strided"].contains(&call.name);
    for (at, size) in sizes.iter().enumerate() {
        let aligned = call.shapes.iter().filter(is_aligned);
        let at_place = aligned.filter_map(|shape| shape.get((at + shape.len()).checked_sub(rank)?));
        let fitting = at_place.filter(|dim| dim.size() == *size && is_free(dim, dims));
        let found = most_roles(fitting).cloned();
        if dims[at].is_none() {
            dims[at] = found;
        }
    }
    for (at, size) in sizes.iter().enumerate() {
        if *size == 1 || dims[at].is_some() {
            continue;
        }
        let all = call.shapes.iter().flat_map(|shape| shape.iter());
        let fitting = all.filter(|dim| dim.size() == *size && is_free(dim, dims));
        dims[at] = most_roles(fitting).cloned();
    }
}

fn is_free(dim: &Dim, taken: &[Option<Dim>]) -> bool {
    dim.size() == 1 || !taken.iter().flatten().any(|other| other == dim)
}

/// Returns the first dimensions of an input, joined to this size, if they have a role: statistics
/// of a norm are per row.
fn joined_dims(call: &Call<'_>, size: u64) -> Option<Dim> {
    call.shapes.iter().find_map(|shape| {
        let (first, rest) = shape.split_first()?;
        let mut joined = first.clone();
        for dim in rest {
            joined = joined.joined(dim);
            if joined.size() == size && joined.roles() > 0 {
                return Some(joined);
            }
        }
        None
    })
}
