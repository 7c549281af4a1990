//! Reads the `## process_group:init ##` node: its only input is the process groups as JSON text
//! (`_get_all_pg_configs` of `distributed_c10d.py`).

use etlink_json::{JsonScanner, JsonValue, unescape};
use etlink_model::ProcessGroup;

/// Name of the node that lists process groups.
pub(crate) const NODE: &[u8] = b"## process_group:init ##";

/// A group as listed by the node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GroupInit {
    pub(crate) group: ProcessGroup,
    /// `backend_id` (PyTorch 2.2 and 2.3): `record_param_comms` uses it in place of a name.
    pub(crate) backend_id: String,
}

/// Reads the groups from the node's `values`. The observer may have truncated the text: an
/// incomplete group is dropped, since a group without ranks would read as all ranks.
pub(crate) fn read(values: &[u8], groups: &mut Vec<GroupInit>) {
    let mut scanner = JsonScanner::new(values);
    if !scanner.eat(b'[') {
        return;
    }
    let Ok(Some(JsonValue::Text(text))) = scanner.item() else {
        return;
    };
    let text = unescape(text);
    let mut list = JsonScanner::new(text.as_bytes());
    if list.eat(b'[') {
        // The inner document is an escaped string of the outer one, so it has its own scanner.
        while let Ok(Some(item)) = list.item() {
            groups.extend(read_group(item));
        }
    }
}

fn read_group(item: JsonValue<'_>) -> Option<GroupInit> {
    let mut init = GroupInit::default();
    let mut scanner = JsonScanner::new(item.raw());
    scanner.enter().ok()?;
    while let Some(key) = scanner.key().ok()? {
        let value = scanner.value().ok()?;
        match key {
            b"pg_name" => init.group.name = value.text().into_owned(),
            b"pg_desc" => init.group.desc = value.text().into_owned(),
            b"backend_config" => init.group.backend = value.text().into_owned(),
            b"backend_id" => init.backend_id = value.text().into_owned(),
            b"group_size" => init.group.size = value.uint().unwrap_or(0),
            b"ranks" => init.group.ranks = read_ranks(value),
            _ => {}
        }
    }
    Some(init)
}

fn read_ranks(value: JsonValue<'_>) -> Vec<u64> {
    let mut ranks = vec![];
    let mut scanner = JsonScanner::new(value.raw());
    if scanner.eat(b'[') {
        while let Ok(Some(rank)) = scanner.item() {
            ranks.extend(rank.uint());
        }
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(values: &str) -> Vec<GroupInit> {
        let mut groups = vec![];
        read(values.as_bytes(), &mut groups);
        groups
    }

    #[test]
    fn groups_of_a_node() {
        let text = concat!(
            r#"["[{\"pg_name\": \"0\", \"pg_desc\": \"default_pg\", "#,
            r#"\"backend_config\": \"cuda:nccl\", \"ranks\": [], \"group_size\": 4, "#,
            r#"\"group_count\": 2}, {\"pg_name\": \"1\", \"backend_id\": 82, \"ranks\": [0, "#,
            r#"2], \"group_size\": 2}]"]"#,
        );
        let default = ProcessGroup {
            name: "0".into(),
            desc: "default_pg".into(),
            backend: "cuda:nccl".into(),
            size: 4,
            ranks: vec![],
        };
        let pair = ProcessGroup {
            name: "1".into(),
            size: 2,
            ranks: vec![0, 2],
            ..ProcessGroup::default()
        };
        let want = [
            GroupInit {
                group: default,
                backend_id: String::new(),
            },
            GroupInit {
                group: pair,
                backend_id: "82".into(),
            },
        ];
        assert_eq!(all(text), want);
    }

    #[test]
    fn a_cut_text_gives_its_whole_groups() {
        assert_eq!(
            all(
                r#"["[{\"pg_name\": \"0\", \"ranks\": []}, {\"pg_name\": \"1\", \"ranks\": [0, 1"]"#
            )
            .len(),
            1
        );
        for nothing in ["", "[]", "[7]", r#"[""]"#, r#"["[1, 2]"]"#] {
            assert_eq!(all(nothing), [], "{nothing}");
        }
    }
}
