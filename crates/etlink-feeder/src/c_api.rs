//! The feeder for C and C++. cbindgen generates `include/etlink_feeder.h` from this file (`cargo dev
//! feeder`); `examples/issue.c` uses it.
//!
//! A function reports failure by its return value; `etlink_feeder_error` returns the reason. None
//! unwinds into C: a panic is an error like others. A feeder is used from one thread at a time.
#![allow(unsafe_code, reason = "C passes pointers, and needs unmangled names")]
#![allow(
    clippy::missing_safety_doc,
    reason = "the header's comment states the rules for all pointers"
)]

use crate::error::FeederError;
use crate::feeder::{Feeder, IssueOrder};
use etlink_chakra::proto::Node;
use etlink_chakra::proto::attribute_proto::Value;
use std::borrow::Cow;
use std::error::Error;
use std::ffi::{CStr, CString, c_char};
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::ptr;
use std::sync::Arc;

/// A feeder of a graph's nodes. Created by `etlink_feeder_open`, freed by `etlink_feeder_close`.
pub struct EtlinkFeeder {
    feeder: Option<Feeder<File>>,
    error: CString,
}

/// A node of a graph. Created by `etlink_feeder_node`, freed by `etlink_node_free`; it may outlive
/// its feeder.
pub struct EtlinkNode {
    node: Arc<Node>,
    name: CString,
    /// Text of the attribute that was returned last.
    text: CString,
}

/// Issues nodes in the order of Chakra's own feeder, as built by GCC.
pub const ETLINK_ORDER_STOCK: u32 = 0;
/// Issues the node with the lowest id first, as ASTRA-sim does.
pub const ETLINK_ORDER_BY_ID: u32 = 1;

/// Opens a `.et` file and reads its graph. `order` is one of `ETLINK_ORDER_…`.
///
/// Always returns a feeder. On failure it has no nodes, and `etlink_feeder_error` returns the
/// reason.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etlink_feeder_open(path: *const c_char, order: u32) -> *mut EtlinkFeeder {
    give(|| {
        // SAFETY: by contract null or a string that ends with 0 and does not change meanwhile.
        let path = unsafe { text_of(path, "the path is null") }?;
        open(path, order, Feeder::new)
    })
}

/// Like `etlink_feeder_open`, but a graph of any size needs only `memory_bytes` of memory. Its index
/// is in an unnamed file in `folder`, with about 50 bytes per node and 12 per dependency. The file
/// disappears when the feeder is closed or the program ends. The issue order is the same.
///
/// In addition to `memory_bytes` the feeder needs about 1 MB and the largest node. Once the file
/// cannot be read or written, for example on a full disk, each call fails, and `etlink_feeder_error`
/// returns the reason.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etlink_feeder_open_with_scratch(
    path: *const c_char,
    order: u32,
    folder: *const c_char,
    memory_bytes: u64,
) -> *mut EtlinkFeeder {
    give(|| {
        // SAFETY: as in `etlink_feeder_open`.
        let path = unsafe { text_of(path, "the path is null") }?;
        // SAFETY: as in `etlink_feeder_open`.
        let folder = unsafe { text_of(folder, "the folder is null") }?;
        let name = folder.to_string_lossy();
        let scratch = tempfile::tempfile_in(&*path_of(folder));
        let scratch = scratch.map_err(|error| said(&name, &error))?;
        let memory_bytes = usize::try_from(memory_bytes).unwrap_or(usize::MAX);
        open(path, order, |graph, order| {
            Feeder::with_scratch(graph, order, scratch, memory_bytes)
        })
    })
}

/// Returns a feeder for C, which has the error if opening fails.
fn give(open: impl FnOnce() -> Result<Feeder<File>, String>) -> *mut EtlinkFeeder {
    let (feeder, error) = match guarded(open) {
        Ok(feeder) => (Some(feeder), CString::default()),
        Err(error) => (None, text(&error)),
    };
    Box::into_raw(Box::new(EtlinkFeeder { feeder, error }))
}

/// Returns a string from C; the error `absent` if it is null.
///
/// # Safety
/// `text` is null or a string that ends with 0, and does not change for `'t`.
unsafe fn text_of<'t>(text: *const c_char, absent: &str) -> Result<&'t CStr, String> {
    if text.is_null() {
        return Err(absent.to_owned());
    }
    // SAFETY: not null, and by contract a text that ends with 0.
    Ok(unsafe { CStr::from_ptr(text) })
}

fn open(
    path: &CStr,
    order: u32,
    feed: impl FnOnce(File, IssueOrder) -> Result<Feeder<File>, FeederError>,
) -> Result<Feeder<File>, String> {
    let order = match order {
        ETLINK_ORDER_STOCK => IssueOrder::Stock,
        ETLINK_ORDER_BY_ID => IssueOrder::ById,
        other => return Err(format!("{other} is not an issue order")),
    };
    let name = path.to_string_lossy();
    let file = open_file(path).map_err(|error| said(&name, &error))?;
    feed(file, order).map_err(|error| said(&name, &error))
}

/// Returns the message for an error of a file or folder, with its causes.
fn said(name: &str, error: &dyn Error) -> String {
    format!("{name}: {}", with_causes(error))
}

fn with_causes(error: &dyn Error) -> String {
    let mut message = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        message = format!("{message}: {cause}");
        source = cause.source();
    }
    message
}

#[cfg(unix)]
fn path_of(path: &CStr) -> Cow<'_, Path> {
    use std::os::unix::ffi::OsStrExt;
    Cow::Borrowed(Path::new(std::ffi::OsStr::from_bytes(path.to_bytes())))
}

#[cfg(not(unix))]
fn path_of(path: &CStr) -> Cow<'_, Path> {
    Cow::Owned(path.to_string_lossy().into_owned().into())
}

#[allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "C passes a path, as a program does"
)]
fn open_file(path: &CStr) -> std::io::Result<File> {
    let path = path_of(path);
    // opening a pipe would wait, and a pipe cannot be read twice
    if !path.metadata()?.is_file() {
        return Err(std::io::Error::other("not a regular file"));
    }
    File::open(path)
}

/// Frees a feeder. Ignores null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etlink_feeder_close(feeder: *mut EtlinkFeeder) {
    if !feeder.is_null() {
        // SAFETY: by contract it came from `Box::into_raw` and is not used any more.
        drop(unsafe { Box::from_raw(feeder) });
    }
}

/// Returns the reason why the last call failed, in English; empty if it succeeded. Calls that only
/// count nodes keep it. Valid until the next call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etlink_feeder_error(feeder: *const EtlinkFeeder) -> *const c_char {
    // SAFETY: by contract null or a feeder that was not freed.
    match unsafe { feeder.as_ref() } {
        Some(feeder) => feeder.error.as_ptr(),
        None => c"the feeder is null".as_ptr(),
    }
}

/// Returns the number of nodes of the graph.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etlink_feeder_nodes(feeder: *const EtlinkFeeder) -> u64 {
    // SAFETY: as in `etlink_feeder_error`.
    count(unsafe { feeder.as_ref() }, |feeder| feeder.nodes())
}

/// Returns the number of nodes that can be issued now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etlink_feeder_ready(feeder: *const EtlinkFeeder) -> u64 {
    // SAFETY: as in `etlink_feeder_error`.
    count(unsafe { feeder.as_ref() }, Feeder::ready)
}

/// Returns the number of nodes that were issued and have not ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etlink_feeder_issued(feeder: *const EtlinkFeeder) -> u64 {
    // SAFETY: as in `etlink_feeder_error`.
    count(unsafe { feeder.as_ref() }, Feeder::issued)
}

/// Returns the number of nodes that have ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etlink_feeder_ended(feeder: *const EtlinkFeeder) -> u64 {
    // SAFETY: as in `etlink_feeder_error`.
    count(unsafe { feeder.as_ref() }, Feeder::ended)
}

/// Issues the next node and writes its id to `id`. Returns 1 if it did, 0 if no node can be issued
/// now, and -1 on an error or if `id` is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etlink_feeder_issue_next(feeder: *mut EtlinkFeeder, id: *mut u64) -> i32 {
    if id.is_null() {
        return -1;
    }
    // SAFETY: as in `etlink_feeder_error`; nothing else uses it meanwhile.
    let feeder = unsafe { feeder.as_mut() };
    let mut issued = None;
    let is_done = change(feeder, |feeder| {
        issued = feeder.issue_next()?;
        Ok(())
    });
    match (is_done, issued) {
        (true, Some(found)) => {
            // SAFETY: not null, and by contract writable.
            unsafe { id.write(found) };
            1
        }
        (true, None) => 0,
        (false, _) => -1,
    }
}

/// Issues a node. Returns false if it cannot be issued now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etlink_feeder_issue(feeder: *mut EtlinkFeeder, id: u64) -> bool {
    // SAFETY: as in `etlink_feeder_issue_next`.
    change(unsafe { feeder.as_mut() }, |feeder| feeder.issue(id))
}

/// Takes back an issued node, which can then be issued again. Returns false if it was not issued.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etlink_feeder_push_back(feeder: *mut EtlinkFeeder, id: u64) -> bool {
    // SAFETY: as in `etlink_feeder_issue_next`.
    change(unsafe { feeder.as_mut() }, |feeder| feeder.push_back(id))
}

/// Marks an issued node as ended, so that nodes that wait only for it can be issued. Returns false if
/// it was not issued.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etlink_feeder_end(feeder: *mut EtlinkFeeder, id: u64) -> bool {
    // SAFETY: as in `etlink_feeder_issue_next`.
    change(unsafe { feeder.as_mut() }, |feeder| feeder.end(id))
}

/// Returns a node with all its data, to be freed by `etlink_node_free`. Returns null if there is no
/// such id, or if the file cannot be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etlink_feeder_node(feeder: *mut EtlinkFeeder, id: u64) -> *mut EtlinkNode {
    // SAFETY: as in `etlink_feeder_issue_next`.
    let feeder = unsafe { feeder.as_mut() };
    let mut found = ptr::null_mut();
    change(feeder, |feeder| {
        let node = feeder.node(id)?;
        let name = text(&node.name);
        let text = CString::default();
        found = Box::into_raw(Box::new(EtlinkNode { node, name, text }));
        Ok(())
    });
    found
}

/// Frees a node. Ignores null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etlink_node_free(node: *mut EtlinkNode) {
    if !node.is_null() {
        // SAFETY: by contract it came from `Box::into_raw` and is not used any more.
        drop(unsafe { Box::from_raw(node) });
    }
}

/// Returns the id of a node; 0 for null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etlink_node_id(node: *const EtlinkNode) -> u64 {
    // SAFETY: by contract null or a node that was not freed.
    unsafe { node.as_ref() }.map_or(0, |node| node.node.id)
}

/// Returns the type of a node, a `NodeType` of Chakra's schema; 0 for null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etlink_node_type(node: *const EtlinkNode) -> i32 {
    // SAFETY: as in `etlink_node_id`.
    unsafe { node.as_ref() }.map_or(0, |node| node.node.r#type)
}

/// Returns the duration of a node in us; 0 for null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etlink_node_duration_micros(node: *const EtlinkNode) -> u64 {
    // SAFETY: as in `etlink_node_id`.
    unsafe { node.as_ref() }.map_or(0, |node| node.node.duration_micros)
}

/// Returns the name of a node in UTF-8, without any 0 bytes. Valid until the node is freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etlink_node_name(node: *const EtlinkNode) -> *const c_char {
    // SAFETY: as in `etlink_node_id`.
    match unsafe { node.as_ref() } {
        Some(node) => node.name.as_ptr(),
        None => c"".as_ptr(),
    }
}

/// Writes the integer value of an attribute, such as `comm_size`, to `value`; true is 1, false is 0.
/// Returns false if the node has no such attribute, or if it is not an integer of 64 bits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etlink_node_int(
    node: *const EtlinkNode,
    name: *const c_char,
    value: *mut i64,
) -> bool {
    // SAFETY: as in `etlink_node_id`; the name is by contract null or a string that ends with 0.
    let found = unsafe { attribute(node, name) }.and_then(Value::whole_number);
    // SAFETY: by contract null or writable.
    unsafe { put(found, value) }
}

/// Writes the value of an attribute, an integer or a float, to `value`. Returns false if the node has
/// no such attribute, or if it is not a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etlink_node_double(
    node: *const EtlinkNode,
    name: *const c_char,
    value: *mut f64,
) -> bool {
    // SAFETY: as in `etlink_node_int`.
    let found = unsafe { attribute(node, name) }.and_then(|value| match value {
        Value::DoubleVal(number) => Some(*number),
        Value::FloatVal(number) => Some(f64::from(*number)),
        other => other.whole_number().map(|number| number as f64),
    });
    // SAFETY: as in `etlink_node_int`.
    unsafe { put(found, value) }
}

/// Returns the text of an attribute, such as `pg_name`; null if the node has none. Valid until the
/// next call of this function with this node.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn etlink_node_text(
    node: *mut EtlinkNode,
    name: *const c_char,
) -> *const c_char {
    // SAFETY: as in `etlink_node_int`.
    let found = match unsafe { attribute(node, name) } {
        Some(Value::StringVal(found)) => text(found),
        _ => return ptr::null(),
    };
    // SAFETY: as in `etlink_node_id`; nothing else uses it meanwhile.
    match unsafe { node.as_mut() } {
        Some(node) => {
            node.text = found;
            node.text.as_ptr()
        }
        None => ptr::null(),
    }
}

/// Returns the value of an attribute.
///
/// # Safety
/// Both pointers are null or valid, and their targets do not change for `'n`.
unsafe fn attribute<'n>(node: *const EtlinkNode, name: *const c_char) -> Option<&'n Value> {
    if name.is_null() {
        return None;
    }
    // SAFETY: not null, and by contract a string that ends with 0.
    let name = unsafe { CStr::from_ptr(name) };
    // SAFETY: by contract null or a node that was not freed.
    let node = unsafe { node.as_ref() }?;
    let attributes = &node.node.attr;
    let found = attributes
        .iter()
        .find(|attribute| attribute.name.as_bytes() == name.to_bytes());
    found?.value.as_ref()
}

/// Writes a value, if any; returns true if it did.
///
/// # Safety
/// `place` is null, or a `T` can be written there.
unsafe fn put<T>(found: Option<T>, place: *mut T) -> bool {
    match found {
        Some(found) if !place.is_null() => {
            // SAFETY: not null, and by contract writable.
            unsafe { place.write(found) };
            true
        }
        _ => false,
    }
}

fn count(feeder: Option<&EtlinkFeeder>, of: impl FnOnce(&Feeder<File>) -> usize) -> u64 {
    let feeder = feeder.and_then(|feeder| feeder.feeder.as_ref());
    feeder.map_or(0, |feeder| of(feeder) as u64)
}

/// Changes a feeder, and keeps the error if that fails.
fn change(
    feeder: Option<&mut EtlinkFeeder>,
    action: impl FnOnce(&mut Feeder<File>) -> Result<(), FeederError>,
) -> bool {
    let Some(outer) = feeder else {
        return false;
    };
    // a feeder that could not be opened keeps its error
    let Some(inner) = &mut outer.feeder else {
        return false;
    };
    match guarded(|| action(inner).map_err(|error| with_causes(&error))) {
        Ok(()) => {
            outer.error = CString::default();
            true
        }
        Err(error) => {
            outer.error = text(&error);
            false
        }
    }
}

/// Returns the result of `action`; a panic is an error.
fn guarded<T>(action: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let done = catch_unwind(AssertUnwindSafe(action));
    done.unwrap_or_else(|_| Err("bug in etlink; please report it".to_owned()))
}

/// Returns a string for C, without 0 bytes, which would end it early.
fn text(text: &str) -> CString {
    CString::new(text.replace('\0', "")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use etlink_chakra::messages::{ChakraMessage, write_et};
    use etlink_chakra::proto::{AttributeProto, GlobalMetadata};
    use std::io::Write;

    fn attribute_of(name: &str, value: Value) -> AttributeProto {
        AttributeProto {
            name: name.to_owned(),
            value: Some(value),
            ..AttributeProto::default()
        }
    }

    fn graph() -> tempfile::NamedTempFile {
        let mut bytes = vec![];
        let metadata = ChakraMessage::Metadata(GlobalMetadata::default());
        write_et(&metadata, &mut bytes).expect("memory takes it");
        for id in 0..2_u64 {
            let node = Node {
                id,
                name: format!("a\0b{id}"),
                data_deps: (0..id).collect(),
                duration_micros: 5,
                attr: vec![
                    attribute_of("comm_size", Value::Uint64Val(64 + id)),
                    attribute_of("is_cpu_op", Value::BoolVal(true)),
                    attribute_of("share", Value::DoubleVal(0.5)),
                    attribute_of("pg_name", Value::StringVal("tp".to_owned())),
                ],
                ..Node::default()
            };
            write_et(&ChakraMessage::Node(Box::new(node)), &mut bytes).expect("memory takes it");
        }
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(&bytes).expect("room for it");
        file
    }

    fn opened(path: &Path) -> *mut EtlinkFeeder {
        let path = CString::new(path.to_str().expect("UTF-8")).expect("no 0 in it");
        // SAFETY: a text that ends with 0.
        unsafe { etlink_feeder_open(path.as_ptr(), ETLINK_ORDER_STOCK) }
    }

    fn opened_with_scratch(path: &Path, folder: &Path) -> *mut EtlinkFeeder {
        let c_text = |path: &Path| CString::new(path.to_str().expect("UTF-8")).expect("no 0 in it");
        let (path, folder) = (c_text(path), c_text(folder));
        // SAFETY: texts that end with 0.
        unsafe {
            etlink_feeder_open_with_scratch(
                path.as_ptr(),
                ETLINK_ORDER_STOCK,
                folder.as_ptr(),
                1 << 16,
            )
        }
    }

    fn error_of(feeder: *const EtlinkFeeder) -> String {
        // SAFETY: a feeder that was not freed, whose text is copied at once.
        let text = unsafe { CStr::from_ptr(etlink_feeder_error(feeder)) };
        text.to_str().expect("UTF-8").to_owned()
    }

    #[test]
    fn a_graph_is_fed_to_its_end() {
        let file = graph();
        let folder = tempfile::tempdir().expect("a folder");
        feed_to_its_end(opened(file.path()));
        feed_to_its_end(opened_with_scratch(file.path(), folder.path()));
        // the file has no name
        let mut left = folder.path().read_dir().expect("a folder");
        assert!(left.next().is_none());
    }

    fn feed_to_its_end(feeder: *mut EtlinkFeeder) {
        assert_eq!(error_of(feeder), "");
        let mut id = 9;
        // SAFETY: a feeder that is freed at the end, and the place of a number.
        unsafe {
            assert_eq!(etlink_feeder_nodes(feeder), 2);
            assert_eq!(etlink_feeder_issue_next(feeder, &raw mut id), 1);
            assert_eq!((id, etlink_feeder_issued(feeder)), (0, 1));
            assert_eq!(etlink_feeder_issue_next(feeder, &raw mut id), 0);
            assert!(!etlink_feeder_issue(feeder, 1));
            assert!(error_of(feeder).starts_with("node 1 cannot be issued"));
            assert_eq!(etlink_feeder_issue_next(feeder, ptr::null_mut()), -1);
            assert!(etlink_feeder_push_back(feeder, 0));
            assert_eq!(error_of(feeder), "");
            assert!(etlink_feeder_issue(feeder, 0));
            assert!(etlink_feeder_end(feeder, 0));
            assert_eq!(
                (etlink_feeder_ready(feeder), etlink_feeder_ended(feeder)),
                (1, 1)
            );
            etlink_feeder_close(feeder);
        }
    }

    #[test]
    fn a_node_says_what_it_is() {
        let file = graph();
        let feeder = opened(file.path());
        let (mut whole, mut number) = (0, 0.0);
        // SAFETY: what is freed is not used afterwards but for the node, which outlives its feeder.
        unsafe {
            assert!(etlink_feeder_node(feeder, 7).is_null());
            assert_eq!(error_of(feeder), "node 7 does not exist");
            let node = etlink_feeder_node(feeder, 1);
            etlink_feeder_close(feeder);
            assert_eq!((etlink_node_id(node), etlink_node_type(node)), (1, 0));
            assert_eq!(etlink_node_duration_micros(node), 5);
            assert_eq!(CStr::from_ptr(etlink_node_name(node)), c"ab1");
            assert!(etlink_node_int(node, c"comm_size".as_ptr(), &raw mut whole));
            assert_eq!(whole, 65);
            assert!(etlink_node_int(node, c"is_cpu_op".as_ptr(), &raw mut whole));
            assert_eq!(whole, 1);
            assert!(etlink_node_double(node, c"share".as_ptr(), &raw mut number));
            assert_eq!(number, 0.5);
            assert!(!etlink_node_int(node, c"share".as_ptr(), &raw mut whole));
            assert!(!etlink_node_int(node, c"absent".as_ptr(), &raw mut whole));
            let group = etlink_node_text(node, c"pg_name".as_ptr());
            assert_eq!(CStr::from_ptr(group), c"tp");
            assert!(etlink_node_text(node, c"share".as_ptr()).is_null());
            etlink_node_free(node);
        }
    }

    #[test]
    fn what_cannot_be_opened_says_why() {
        let folder = tempfile::tempdir().expect("a folder");
        let absent = folder.path().join("absent.et");
        let file = graph();
        for (feeder, words) in [
            (opened(&absent), "absent.et: "),
            (opened(folder.path()), "not a regular file"),
            (opened_with_scratch(&absent, folder.path()), "absent.et: "),
            (opened_with_scratch(file.path(), &absent), "absent.et: "),
        ] {
            assert!(error_of(feeder).contains(words), "{}", error_of(feeder));
            // SAFETY: a feeder that is freed at the end.
            unsafe {
                assert_eq!(etlink_feeder_nodes(feeder), 0);
                assert!(!etlink_feeder_issue(feeder, 0));
                assert!(error_of(feeder).contains(words), "{}", error_of(feeder));
                etlink_feeder_close(feeder);
            }
        }
    }

    #[test]
    fn null_is_an_error_and_no_crash() {
        // SAFETY: null is what all of them take.
        unsafe {
            let feeder = etlink_feeder_open(ptr::null(), ETLINK_ORDER_STOCK);
            assert_eq!(error_of(feeder), "the path is null");
            etlink_feeder_close(feeder);
            let path = c"absent.et".as_ptr();
            let feeder = etlink_feeder_open_with_scratch(path, ETLINK_ORDER_STOCK, ptr::null(), 0);
            assert_eq!(error_of(feeder), "the folder is null");
            etlink_feeder_close(feeder);
            let none = ptr::null_mut();
            assert_eq!(error_of(none), "the feeder is null");
            assert_eq!(etlink_feeder_issue_next(none, ptr::null_mut()), -1);
            assert!(etlink_feeder_node(none, 0).is_null());
            assert!(!etlink_node_int(ptr::null(), ptr::null(), ptr::null_mut()));
            assert!(etlink_node_text(ptr::null_mut(), c"a".as_ptr()).is_null());
            etlink_node_free(ptr::null_mut());
            etlink_feeder_close(none);
        }
    }
}
