//! Objects of a set: uploaded completely, but invisible until all are written.

use super::commit_error;
use crate::error::RunError;
use crate::storage::upload::UploadedObject;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Number of objects that get their names in parallel; each takes a request.
const COMMITS_AT_ONCE: usize = 16;

/// Completely uploaded objects of a set, by their names within its folder.
#[derive(Default)]
pub(super) struct WaitingObjects(Mutex<BTreeMap<String, UploadedObject>>);

impl std::fmt::Debug for WaitingObjects {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} objects", self.objects().len())
    }
}

impl WaitingObjects {
    pub(super) fn add(&self, name: &str, object: UploadedObject) {
        let before = self.objects().insert(name.to_owned(), object);
        // an earlier upload of the same rank; not under the lock, because it sends a request
        drop(before);
    }

    pub(super) fn take(&self, name: &str) -> Option<UploadedObject> {
        self.objects().remove(name)
    }

    fn objects(&self) -> MutexGuard<'_, BTreeMap<String, UploadedObject>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes all objects visible. Returns their number, and the error of the first failure.
    pub(super) fn commit(
        &self,
        folder: &Path,
        names: &[String],
        overwrite: bool,
    ) -> (usize, Option<RunError>) {
        let (mut done, mut failed) = (0, None);
        for names in names.chunks(COMMITS_AT_ONCE) {
            let objects = names
                .iter()
                .filter_map(|name| Some((name, self.take(name)?)));
            let begun: Vec<_> = objects
                .map(|(name, object)| (name, object.begin_commit(overwrite)))
                .collect();
            for (name, put) in begun {
                match put.and_then(|put| put.wait()) {
                    Ok(()) => done += 1,
                    Err(error) => {
                        failed.get_or_insert_with(|| commit_error(error, &folder.join(name)));
                    }
                }
            }
        }
        (done, failed)
    }
}

#[cfg(feature = "s3")]
#[cfg(test)]
mod tests {
    use crate::error::RunError;
    use crate::output::{FileSet, OutputFormat, Target};
    use crate::storage::{exists, list, read};
    use std::path::Path;

    /// Returns content of more than two parts.
    fn large() -> Vec<u8> {
        (0..5_000_000u32).flat_map(u32::to_le_bytes).collect()
    }

    fn write(set: &FileSet, name: &str, content: &[u8]) -> Result<(), RunError> {
        let target = set.target(name, OutputFormat::Chakra)?;
        let ((), bytes) = target.write(|out| out.write_all(content))?;
        assert_eq!(bytes, content.len() as u64);
        Ok(())
    }

    #[test]
    fn objects_of_a_set_appear_when_all_are_written() {
        let folder = Path::new("memory://sets/run/");
        let set = FileSet::new(folder, false).expect("a set");
        write(&set, "0.et", b"small").expect("writes");
        write(&set, "1.et", &large()).expect("writes");
        write(&set, "2.et", b"").expect("writes");
        write(&set, "3.et", b"discarded").expect("writes");
        set.discard("3.et");
        assert!(
            list(folder).expect("lists").is_empty(),
            "nothing is there yet"
        );
        set.replace(vec![]).expect("replaces");
        assert_eq!(list(folder).expect("lists").len(), 3);
        assert_eq!(read(&folder.join("0.et")).expect("reads"), b"small");
        assert!(read(&folder.join("1.et")).expect("reads") == large());
    }

    #[test]
    fn a_set_that_is_given_up_leaves_nothing() {
        let folder = Path::new("memory://sets/given-up");
        let set = FileSet::new(folder, false).expect("a set");
        write(&set, "0.et", b"small").expect("writes");
        write(&set, "1.et", &large()).expect("writes");
        let target = set.target("2.et", OutputFormat::Chakra).expect("a target");
        let failed = target.write(|out| {
            out.write_all(&large())?;
            Err::<(), _>(std::io::Error::other("no more"))
        });
        assert!(failed.is_err());
        drop((set, target));
        assert!(list(folder).expect("lists").is_empty());
    }

    #[test]
    fn an_object_that_is_there_is_refused_and_replaced() {
        let path = Path::new("memory://sets/one/x.et");
        let new = |overwrite| Target::new(path, None, overwrite);
        let early = new(false).expect("a target");
        let first = new(false).expect("a target");
        first.write(|out| out.write_all(b"1")).expect("writes");
        assert!(matches!(new(false), Err(RunError::Exists { .. })));
        // another program was faster
        for content in [b"2".to_vec(), large()] {
            let refused = early.write(|out| out.write_all(&content));
            assert!(
                matches!(refused, Err(RunError::Exists { .. })),
                "{refused:?}"
            );
        }
        assert_eq!(read(path).expect("reads"), b"1");
        let over = new(true).expect("a target");
        over.write(|out| out.write_all(&large())).expect("writes");
        assert!(read(path).expect("reads") == large());
    }

    #[test]
    fn objects_of_an_earlier_run_go_with_its_replacement() {
        let folder = Path::new("memory://sets/twice");
        for (name, stale) in [("old.et", vec![]), ("new.et", vec!["old.et".to_owned()])] {
            let set = FileSet::new(folder, true).expect("a set");
            write(&set, name, b"x").expect("writes");
            set.replace(stale).expect("replaces");
        }
        assert!(!exists(&folder.join("old.et")) && exists(&folder.join("new.et")));
    }

    #[test]
    fn a_web_server_is_not_written() {
        let refused = FileSet::new(Path::new("https://example.org/x"), true);
        assert!(refused.is_err());
        let refused = Target::new(Path::new("https://example.org/x.et"), None, true);
        let text = crate::text::error_chain(&refused.expect_err("is refused"));
        assert!(
            text.contains("https://example.org/x.et") && text.contains("s3://"),
            "{text}"
        );
    }
}
