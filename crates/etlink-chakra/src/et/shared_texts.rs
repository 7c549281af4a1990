//! Texts that many nodes have, which stand once in the first message: schemas of ops and types of
//! arguments.
//!
//! A node names one by its place in the list, from 0: `op_schema` is then a number instead of a
//! text, and `types` of its arguments is `#` with the number. What is rare stays in its nodes.

use super::part::PartGraph;
use super::plan::EtPlan;
use crate::wire::write::MessageWriter;
use crate::{AttributeSet, WriteOptions};
use etlink_link::LinkedTrace;
use etlink_model::{NameId, Names};
use std::cmp::Reverse;

/// Attribute of the first message: schemas of ops.
pub(crate) const OP_SCHEMAS: &str = "op_schemas";
/// Attribute of the first message: types of arguments.
pub(crate) const ARGUMENT_TYPES: &str = "argument_types";

/// So many bytes has each list at most. Readers tell a file by its first 64 KB, which then hold all
/// of the first message.
const LIST_BYTES: usize = 24 << 10;

/// What a text takes in a list beside its bytes; a reference to it takes no more.
const REFERENCE_BYTES: usize = 4;

/// The lists of a file.
#[derive(Default)]
pub(crate) struct SharedTexts<'t> {
    op_schemas: TextList<'t>,
    /// Of the host trace's nodes; of the device trace's ops where there is no host trace.
    argument_types: TextList<'t>,
}

impl<'t> SharedTexts<'t> {
    /// The texts of the ops whose first slices are written. O(ops).
    pub(crate) fn of(
        trace: &'t LinkedTrace,
        graph: &PartGraph<'_>,
        plan: &EtPlan,
        options: &WriteOptions<'_>,
    ) -> SharedTexts<'t> {
        let uses = SharedUses::of(trace, graph, plan, options);
        let host = trace.host.as_ref();
        let names = host.map_or(&trace.device.names, |host| &host.names);
        SharedTexts {
            op_schemas: TextList::of(&uses.schemas, names),
            argument_types: TextList::of(&uses.types, names),
        }
    }

    /// Writes the lists as attributes of the first message.
    pub(crate) fn write(&self, message: &mut MessageWriter) {
        for (name, list) in [
            (OP_SCHEMAS, &self.op_schemas),
            (ARGUMENT_TYPES, &self.argument_types),
        ] {
            if !list.texts.is_empty() {
                message.attr_texts(name, &list.texts);
            }
        }
    }

    /// Writes the schema of an op.
    pub(crate) fn write_schema(&self, schema: NameId, names: &Names, message: &mut MessageWriter) {
        match self.op_schemas.place(schema) {
            Some(place) => message.attr_uint("op_schema", place.into()),
            None if names.get(schema).is_empty() => {}
            None => message.attr_text("op_schema", names.get(schema)),
        }
    }

    /// What `types` of arguments is.
    pub(crate) fn types<'n>(&'n self, types: NameId, names: &'n Names) -> &'n str {
        match self.argument_types.place(types) {
            Some(place) => &self.argument_types.references[place as usize],
            None => names.get(types),
        }
    }
}

/// How often each text is used that can be shared.
#[derive(Debug, Default)]
struct SharedUses {
    schemas: TextUses,
    types: TextUses,
}

impl SharedUses {
    /// Counts those of the ops whose first slices are written. O(ops).
    fn of(
        trace: &LinkedTrace,
        graph: &PartGraph<'_>,
        plan: &EtPlan,
        options: &WriteOptions<'_>,
    ) -> SharedUses {
        let mut uses = SharedUses::default();
        if options.attributes == AttributeSet::Minimal {
            return uses;
        }
        for (op, slice) in plan.first_slice.iter().enumerate() {
            let is_written = slice.get().is_some_and(|slice| {
                plan.is_written(slice, graph.nodes.kind[slice.index()], options)
            });
            if !is_written {
                continue;
            }
            let Some(host) = &trace.host else {
                uses.types.count(trace.device.ops.types[op]);
                continue;
            };
            if let Some(node) = trace.op_host[op].get() {
                let (nodes, node) = (&host.nodes, node.index());
                uses.schemas.count(nodes.op_schema[node]);
                uses.types.count(nodes.inputs[node].types);
                uses.types.count(nodes.outputs[node].types);
            }
        }
        uses
    }
}

/// How often each name of a table is used, by its number.
#[derive(Debug, Default)]
struct TextUses(Vec<u32>);

impl TextUses {
    fn count(&mut self, name: NameId) {
        if self.0.len() <= name.index() {
            self.0.resize(name.index() + 1, 0);
        }
        self.0[name.index()] += 1;
    }
}

/// Texts of a table of names, and the place of each.
#[derive(Default)]
struct TextList<'t> {
    texts: Vec<&'t str>,
    /// Per text, what stands for it: `#` and its place.
    references: Vec<String>,
    /// Per name, its place in `texts`; `u32::MAX` = it has none.
    places: Vec<u32>,
}

impl<'t> TextList<'t> {
    /// Those that save most, as far as there is room, and these first. Names of one recording have
    /// other numbers when they are read from another export of it, so that numbers decide nothing.
    fn of(uses: &TextUses, names: &'t Names) -> TextList<'t> {
        let mut wanted: Vec<(usize, NameId)> = vec![];
        for (index, &uses) in uses.0.iter().enumerate() {
            let name = NameId::new(index);
            let length = names.get(name).len();
            let inline = length.saturating_mul(uses as usize);
            let shared = length + REFERENCE_BYTES * (uses as usize + 1);
            if inline > shared {
                wanted.push((inline - shared, name));
            }
        }
        wanted.sort_unstable_by_key(|(saved, name)| (Reverse(*saved), names.get(*name)));
        let mut bytes = 0;
        wanted.retain(|(_, name)| {
            let length = names.get(*name).len() + REFERENCE_BYTES;
            let has_room = bytes + length <= LIST_BYTES;
            bytes += if has_room { length } else { 0 };
            has_room
        });
        let mut list = TextList {
            texts: vec![],
            references: vec![],
            places: vec![u32::MAX; uses.0.len()],
        };
        for (place, (_, name)) in (0..).zip(wanted) {
            list.places[name.index()] = place;
            list.texts.push(names.get(name));
            list.references.push(format!("#{place}"));
        }
        list
    }

    fn place(&self, name: NameId) -> Option<u32> {
        let place = self.places.get(name.index()).copied();
        place.filter(|place| *place != u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_long_and_often_used_is_shared_as_far_as_there_is_room() {
        let mut names = Names::default();
        let mut uses = TextUses::default();
        let long = "x".repeat(LIST_BYTES);
        for (text, times) in [
            ("Tensor(float) c", 9),
            ("Tensor(float) b", 1),
            (&long, 2),
            ("[]", 100),
            ("Tensor(float) a", 9),
        ] {
            let name = names.intern(text);
            (0..times).for_each(|_| uses.count(name));
        }
        let list = TextList::of(&uses, &names);
        assert_eq!(list.texts, ["Tensor(float) a", "Tensor(float) c"]);
        let place = |text: &str| list.place(names.find(text).expect("a name"));
        assert_eq!(place("Tensor(float) c"), Some(1));
        assert_eq!(place("Tensor(float) b"), None, "used once");
        assert_eq!(place(&long), None, "no room");
        assert_eq!(place("[]"), None, "a reference is no shorter");
        assert_eq!(list.place(NameId::EMPTY), None);
    }
}
