//! Collects texts that many nodes share, which the first message stores once: schemas of ops and
//! types of arguments.
//!
//! A node refers to a shared text by its position in the list, from 0: `op_schema` is then a number
//! instead of a text, and `types` of the arguments is `#` followed by the number. Rare texts stay
//! in their nodes.

use super::part::PartGraph;
use super::plan::EtPlan;
use crate::wire::write::MessageWriter;
use crate::{AttributeSet, WriteOptions};
use etlink_link::LinkedTrace;
use etlink_model::{NameId, Names};
use std::cmp::Reverse;

/// Attribute of the first message for schemas of ops.
pub(crate) const OP_SCHEMAS: &str = "op_schemas";
/// Attribute of the first message for types of arguments.
pub(crate) const ARGUMENT_TYPES: &str = "argument_types";

/// Maximum bytes per list. Readers identify a file by its first 64 KB, which then contain the whole
/// first message.
const LIST_BYTES: usize = 24 << 10;

/// Overhead of a text in a list, in bytes; a reference to the text takes no more.
const REFERENCE_BYTES: usize = 4;

/// Lists of a file.
#[derive(Default)]
pub(crate) struct SharedTexts<'t> {
    op_schemas: TextList<'t>,
    /// Types of the host trace's nodes, or of the device trace's ops if there is no host trace.
    argument_types: TextList<'t>,
}

impl<'t> SharedTexts<'t> {
    /// Collects the texts of ops whose first slices are written. O(ops).
    pub(crate) fn of(
        trace: &'t LinkedTrace,
        graph: &PartGraph<'_>,
        plan: &EtPlan,
        options: &WriteOptions<'_>,
    ) -> SharedTexts<'t> {
        let [schemas, types] = shared_uses(trace, graph, plan, options);
        let host = trace.host.as_ref();
        let names = host.map_or(&trace.device.names, |host| &host.names);
        SharedTexts {
            op_schemas: TextList::of(&schemas, names),
            argument_types: TextList::of(&types, names),
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

    /// Returns the value of the arguments' `types`.
    pub(crate) fn types<'n>(&'n self, types: NameId, names: &'n Names) -> &'n str {
        match self.argument_types.place(types) {
            Some(place) => &self.argument_types.references[place as usize],
            None => names.get(types),
        }
    }
}

/// Returns the number of uses of each schema and of each list of types, by the number of its name,
/// in ops whose first slices are written. O(ops).
fn shared_uses(
    trace: &LinkedTrace,
    graph: &PartGraph<'_>,
    plan: &EtPlan,
    options: &WriteOptions<'_>,
) -> [Vec<u32>; 2] {
    let (mut schemas, mut types) = (vec![], vec![]);
    if options.attributes == AttributeSet::Minimal {
        return [schemas, types];
    }
    for (op, slice) in plan.first_slice.iter().enumerate() {
        let is_written = slice
            .get()
            .is_some_and(|slice| plan.is_written(slice, graph.nodes.kind[slice.index()], options));
        if !is_written {
            continue;
        }
        let Some(host) = &trace.host else {
            count(&mut types, trace.device.ops.types[op]);
            continue;
        };
        if let Some(node) = trace.op_host[op].get() {
            let (nodes, node) = (&host.nodes, node.index());
            count(&mut schemas, nodes.op_schema[node]);
            count(&mut types, nodes.inputs[node].types);
            count(&mut types, nodes.outputs[node].types);
        }
    }
    [schemas, types]
}

fn count(uses: &mut Vec<u32>, name: NameId) {
    if uses.len() <= name.index() {
        uses.resize(name.index() + 1, 0);
    }
    uses[name.index()] += 1;
}

/// Selected texts of a table of names, and the position of each.
#[derive(Default)]
struct TextList<'t> {
    texts: Vec<&'t str>,
    /// Reference to each text: `#` and its position.
    references: Vec<String>,
    /// Position in `texts` of each name; `u32::MAX` if it has none.
    places: Vec<u32>,
}

impl<'t> TextList<'t> {
    /// Selects the texts that save most, as far as there is room, and orders them by savings.
    /// Numbers of names do not influence the order, because they differ between exports of one
    /// recording.
    fn of(uses: &[u32], names: &'t Names) -> TextList<'t> {
        let mut wanted: Vec<(usize, NameId)> = vec![];
        for (index, &uses) in uses.iter().enumerate() {
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
            places: vec![u32::MAX; uses.len()],
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
        let mut uses = vec![];
        let long = "x".repeat(LIST_BYTES);
        for (text, times) in [
            ("Tensor(float) c", 9),
            ("Tensor(float) b", 1),
            (&long, 2),
            ("[]", 100),
            ("Tensor(float) a", 9),
        ] {
            let name = names.intern(text);
            (0..times).for_each(|_| count(&mut uses, name));
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
