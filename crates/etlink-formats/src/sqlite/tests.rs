use crate::sqlite::{Error, RowFilter, SqliteTables, scan_rows, set_safe_limits};
use etlink_model::AnomalyKind;
use proptest::prelude::*;
use rusqlite::{Connection, MAIN_DB};

fn database(sql: &str) -> Connection {
    let mut connection = Connection::open_in_memory().unwrap();
    connection.execute_batch(sql).unwrap();
    set_safe_limits(&mut connection).unwrap();
    connection
}

fn ints(connection: &Connection, table: &str, columns: &[&str]) -> (Vec<Vec<Option<i64>>>, u64) {
    let tables = SqliteTables::probe(connection).unwrap();
    let mut found = vec![];
    let table = tables.table(table).unwrap();
    let scanned = scan_rows(connection, table, columns, RowFilter::All, |cells| {
        found.push((0..columns.len()).map(|at| cells.int(at)).collect())
    })
    .unwrap();
    (found, scanned.anomalies.count(AnomalyKind::BadCell))
}

#[test]
fn cells_of_all_types() {
    let connection = database(
        "CREATE TABLE t (a, b); \
         INSERT INTO t VALUES (1, 2.0), ('3', NULL), ('x', 2.5), (x'00', 9223372036854775807);",
    );
    let (found, bad) = ints(&connection, "T", &["a", "b", "absent"]);
    let expected = [
        vec![Some(1), Some(2), None],
        vec![Some(3), None, None],
        vec![None, None, None],
        vec![None, Some(i64::MAX), None],
    ];
    assert_eq!(found, expected);
    assert_eq!(bad, 3, "'x', 2.5 and the blob");
}

#[test]
fn texts_that_are_no_utf8_are_kept() {
    let connection = database("CREATE TABLE t (a); INSERT INTO t VALUES (CAST(x'41FF' AS TEXT));");
    let tables = SqliteTables::probe(&connection).unwrap();
    let mut text = String::new();
    let table = tables.table("t").unwrap();
    scan_rows(&connection, table, &["a"], RowFilter::All, |cells| {
        text = cells.text(0).unwrap().into_owned()
    })
    .unwrap();
    assert_eq!(text, "A\u{fffd}");
}

#[test]
fn filters_by_the_high_bits() {
    let connection = database("CREATE TABLE t (tid); INSERT INTO t VALUES (513), (514), (769);");
    let tables = SqliteTables::probe(&connection).unwrap();
    let mut found = vec![];
    let filter = RowFilter::Equal {
        column: "tid",
        ignored_bits: 8,
        value: 2,
    };
    let table = tables.table("t").unwrap();
    let count = scan_rows(&connection, table, &["tid"], filter, |cells| {
        found.extend(cells.int(0))
    });
    assert_eq!((count.unwrap().count, found), (2, vec![513, 514]));
}

#[test]
fn tables_and_keys() {
    let connection = database(
        "CREATE TABLE a (id INTEGER PRIMARY KEY, v); CREATE TABLE b (x, y, PRIMARY KEY (x, y)); \
         CREATE VIEW c AS SELECT v FROM a; INSERT INTO a VALUES (7, 1);",
    );
    let tables = SqliteTables::probe(&connection).unwrap();
    let names: Vec<&str> = tables.iter().map(|table| table.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    let table = tables.table("A").unwrap();
    assert_eq!(table.row_id.as_deref(), Some("id"));
    assert_eq!(table.last_row(&connection).unwrap(), Some(7));
    assert!(tables.table("b").unwrap().row_id.is_none());
}

/// Each view selects twice from the one before it: listing the last view's columns alone takes
/// SQLite exponentially many steps.
#[test]
fn views_of_views_are_not_looked_into() {
    let mut text = "CREATE TABLE t (x); CREATE VIEW v0 AS SELECT x FROM t;".to_owned();
    for level in 1..30 {
        let before = level - 1;
        text += &format!("CREATE VIEW v{level} AS SELECT a.x FROM v{before} a, v{before} b;");
    }
    let tables = SqliteTables::probe(&database(&text)).unwrap();
    assert_eq!(tables.iter().count(), 1);
}

#[test]
fn a_trimmed_table_has_no_more_rows_than_fit_into_its_file() {
    let connection = database(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, v); INSERT INTO t VALUES (1000000000000, 1);",
    );
    let tables = SqliteTables::probe(&connection).unwrap();
    let rows = tables.table("t").unwrap().last_row(&connection).unwrap();
    assert_eq!(rows, Some(tables.bytes / 10));
}

#[test]
fn what_is_no_database_is_said() {
    let folder = std::env::temp_dir().join(format!("etlink-sqlite-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("no.sqlite");
    #[allow(clippy::disallowed_methods, reason = "a test")]
    std::fs::write(
        &path,
        "no database, but longer than a header of SQLite would be".repeat(9),
    )
    .unwrap();
    let connection = Connection::open(&path).unwrap();
    let error = SqliteTables::probe(&connection).unwrap_err();
    assert!(matches!(error, Error::NotDatabase { .. }), "{error}");
    assert!(error.to_string().contains("export or copy it again"));
    std::fs::remove_dir_all(folder).unwrap();
}

/// Returns a database of some thousand rows as bytes.
fn image() -> Vec<u8> {
    let folder = std::env::temp_dir().join(format!("etlink-image-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("image.sqlite");
    let connection = Connection::open(&path).unwrap();
    connection
        .execute_batch(
            "CREATE TABLE t (a INTEGER, b TEXT); \
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) \
             INSERT INTO t SELECT i, 'text ' || i FROM n;",
        )
        .unwrap();
    drop(connection);
    #[allow(clippy::disallowed_methods, reason = "a test")]
    let bytes = std::fs::read(&path).unwrap();
    std::fs::remove_dir_all(folder).unwrap();
    bytes
}

#[test]
fn damage_ends_a_table_and_is_counted() {
    let mut bytes = image();
    let middle = bytes.len() / 2;
    bytes[middle..].fill(0xa5);
    let folder = std::env::temp_dir().join(format!("etlink-damage-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("damaged.sqlite");
    #[allow(clippy::disallowed_methods, reason = "a test")]
    std::fs::write(&path, bytes).unwrap();
    let mut connection = Connection::open(&path).unwrap();
    set_safe_limits(&mut connection).unwrap();
    let tables = SqliteTables::probe(&connection).unwrap();
    let mut last = 0;
    let table = tables.table("t").unwrap();
    let scanned = scan_rows(&connection, table, &["a"], RowFilter::All, |cells| {
        last = cells.int(0).unwrap()
    })
    .unwrap();
    let rows = scanned.count;
    assert!(rows > 100 && rows < 20000, "{rows}");
    assert_eq!(last, rows as i64, "all rows before the damage");
    assert_eq!(scanned.anomalies.count(AnomalyKind::TableDamaged), 1);
    std::fs::remove_dir_all(folder).unwrap();
}

/// Page size of the databases below.
const PAGE: usize = 512;

/// Builds a database with a table `t` whose pages each reference the next one `often` times, down
/// to a page with one row: `often` to the power of nine rows.
fn pages_that_name_one(often: u16) -> Vec<u8> {
    let mut connection = Connection::open_in_memory().unwrap();
    connection
        .execute_batch(
            "PRAGMA page_size = 512; CREATE TABLE t (a, b); INSERT INTO t VALUES (7, 8);",
        )
        .unwrap();
    // the list of tables, and the table's only page
    let mut image = connection.serialize(MAIN_DB).unwrap().to_vec();
    assert_eq!(image.len(), 2 * PAGE);
    let leaf = image.split_off(PAGE);
    let levels = 2..11u32;
    let last = levels.end;
    for number in levels {
        // https://sqlite.org/fileformat.html, 1.6: an inner page of a table
        let mut page = vec![0; PAGE];
        let begin = PAGE - 5 * usize::from(often - 1);
        page[0] = 5;
        page[3..5].copy_from_slice(&(often - 1).to_be_bytes());
        page[5..7].copy_from_slice(&u16::try_from(begin).unwrap().to_be_bytes());
        page[8..12].copy_from_slice(&(number + 1).to_be_bytes());
        for cell in 0..usize::from(often - 1) {
            let at = begin + 5 * cell;
            page[12 + 2 * cell..][..2].copy_from_slice(&u16::try_from(at).unwrap().to_be_bytes());
            page[at..at + 4].copy_from_slice(&(number + 1).to_be_bytes());
            page[at + 4] = 1;
        }
        image.extend(page);
    }
    image.extend(leaf);
    // number of pages
    image[28..32].copy_from_slice(&last.to_be_bytes());
    image
}

#[test]
fn pages_that_are_named_many_times_end() {
    let image = pages_that_name_one(30);
    let mut connection = Connection::open_in_memory().unwrap();
    let taken = connection.deserialize_read_exact(MAIN_DB, &image[..], image.len(), true);
    taken.unwrap();
    set_safe_limits(&mut connection).unwrap();
    let tables = SqliteTables::probe(&connection).unwrap();
    let table = tables.table("t").unwrap();
    let none = RowFilter::Equal {
        column: "a",
        ignored_bits: 0,
        value: 9,
    };
    for (filter, most) in [(RowFilter::All, image.len() as u64 / 6), (none, 0)] {
        let mut rows = 0;
        let scanned = scan_rows(&connection, table, &["a"], filter, |_| rows += 1).unwrap();
        assert_eq!((scanned.count, rows), (most, most));
        let damage = scanned
            .anomalies
            .iter()
            .map(|(_, damage)| damage.first.clone());
        let damage: Vec<Option<String>> = damage.collect();
        let expected = format!("t after {most} rows: more rows than fit into the file");
        assert_eq!(damage, [Some(expected)]);
    }
    // damage ends the numbers
    assert!(table.distinct_ints(&connection, "b").unwrap().len() <= 1);
}

/// A cell cannot be longer than its file.
#[test]
fn a_cell_is_no_longer_than_its_file() {
    let mut connection = Connection::open_in_memory().unwrap();
    connection
        .execute_batch(
            "PRAGMA page_size = 512; CREATE TABLE t (a, b); \
             INSERT INTO t VALUES (zeroblob(5000000), 8);",
        )
        .unwrap();
    let mut image = connection.serialize(MAIN_DB).unwrap().to_vec();
    // the list of tables and the start of the row, without the pages that hold the rest
    image.truncate(4 * PAGE);
    image[28..32].copy_from_slice(&4u32.to_be_bytes());
    let mut connection = Connection::open_in_memory().unwrap();
    let taken = connection.deserialize_read_exact(MAIN_DB, &image[..], image.len(), true);
    taken.unwrap();
    set_safe_limits(&mut connection).unwrap();
    let tables = SqliteTables::probe(&connection).unwrap();
    let table = tables.table("t").unwrap();
    let columns = ["a"];
    let scanned = scan_rows(&connection, table, &columns, RowFilter::All, |_| {});
    let scanned = scanned.unwrap();
    assert_eq!(scanned.count, 0);
    let damage = scanned
        .anomalies
        .iter()
        .map(|(_, damage)| damage.first.clone());
    let damage: Vec<Option<String>> = damage.collect();
    assert_eq!(
        damage,
        [Some("t after 0 rows: string or blob too big".to_owned())]
    );
}

proptest! {
    /// SQLite takes any quoted name for one name.
    #[test]
    fn names_of_any_characters(name in "[ -~]{1,12}") {
        prop_assume!(!name.to_ascii_lowercase().starts_with("sqlite_"));
        let quoted = crate::sqlite::tables::quoted_name(&name);
        let connection = database(&format!("CREATE TABLE {quoted} (a); INSERT INTO {quoted} VALUES (1);"));
        prop_assert_eq!(ints(&connection, &name, &["a"]).0, [[Some(1)]]);
    }
}
