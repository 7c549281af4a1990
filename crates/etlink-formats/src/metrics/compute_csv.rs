//! Reads Nsight Compute's CSV.
//!
//! `ncu --csv --page raw` prints a line per kernel with a column per metric, and a second header
//! line with units. `ncu --csv` alone prints a line per metric, with the columns `Metric Name`,
//! `Metric Unit` and `Metric Value` (Nsight Compute CLI, "Command Line Options", page `details`).
//! Output of `ncu` and of the program precedes both.

use crate::metrics::not_read;
use etlink_model::Failure;
use etlink_model::{MetricProfile, NameId, ProfiledKernel, ProfiledMetric};
use std::io::{BufRead, BufReader, ErrorKind, Read};

/// Maximum bytes before the table, printed by the program.
const MAX_PREAMBLE_BYTES: usize = 64 << 20;

/// Columns that are not metrics.
const PLACE_COLUMNS: [&str; 15] = [
    "ID",
    "Process ID",
    "Process Name",
    "Host Name",
    "Kernel Name",
    "Kernel Time",
    "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg",
    "Id:Domain:Start/Stop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg",
    "Context",
    "Stream",
    "Block Size",
    "Grid Size",
    "Device",
    "CC",
    "Section Name",
];

/// Returns true if a file begins like Nsight Compute's CSV, or contains the table after other
/// output.
pub fn is_compute_csv(head: &[u8]) -> bool {
    let mut lines = head.split(|byte| *byte == b'\n');
    lines.any(is_column_line)
}

fn is_column_line(line: &[u8]) -> bool {
    let text = String::from_utf8_lossy(line);
    let names = text.trim_start_matches('\u{feff}');
    names.starts_with("\"ID\",") && names.contains("\"Kernel Name\"")
}

/// Reads metrics of kernels, in launch order. O(cells).
///
/// # Errors
/// The source fails, or contains no such table.
pub fn read_compute_csv<R: Read>(source: R) -> Result<MetricProfile, Failure> {
    let mut lines = BufReader::new(source);
    let columns = column_line(&mut lines)?;
    let mut table = csv::ReaderBuilder::new()
        .has_headers(false)
        // A truncated last line has fewer cells.
        .flexible(true)
        .from_reader(columns.as_bytes().chain(lines));
    let mut record = csv::StringRecord::new();
    let mut reader = TableReader::default();
    let mut is_first = true;
    loop {
        match table.read_record(&mut record) {
            Ok(false) => break,
            Ok(true) if is_first => {
                is_first = false;
                reader.read_columns(&record);
            }
            Ok(true) => reader.read_line(&record),
            Err(error) => match error.into_kind() {
                // In a truncated compressed file, the data before the end is valid.
                csv::ErrorKind::Io(error) if is_damage(&error) => {
                    reader.profile.damaged_lines += 1;
                    break;
                }
                csv::ErrorKind::Io(error) => return Err(not_read(error)),
                // For example text in another encoding; the next line may be valid.
                _ => reader.profile.damaged_lines += 1,
            },
        }
    }
    Ok(reader.profile)
}

/// Returns true if a source ended early, rather than failed.
fn is_damage(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::UnexpectedEof | ErrorKind::InvalidData
    )
}

/// Returns the line of column names, and skips the output before it.
fn column_line(lines: &mut impl BufRead) -> Result<String, Failure> {
    let (mut line, mut passed) = (vec![], 0);
    loop {
        line.clear();
        // A line without an end must not fill the memory.
        let mut limited = lines.by_ref().take(MAX_PREAMBLE_BYTES as u64);
        let bytes = limited.read_until(b'\n', &mut line).map_err(not_read)?;
        passed += bytes;
        if bytes == 0 || passed > MAX_PREAMBLE_BYTES {
            let problem = "no Nsight Compute table found: a line with the columns \"ID\" and \
                           \"Kernel Name\" is missing";
            let remedy = "export the report with `ncu --csv --page raw --import REPORT`";
            return Err(Failure::new(problem).advise(remedy));
        }
        if is_column_line(&line) {
            let text = String::from_utf8_lossy(&line);
            return Ok(text.trim_start_matches('\u{feff}').to_owned());
        }
    }
}

/// Positions of a table's columns.
#[derive(Default)]
struct TableReader {
    profile: MetricProfile,
    id: Option<usize>,
    process: Option<usize>,
    kernel: Option<usize>,
    grid: Option<usize>,
    block: Option<usize>,
    /// Columns of name, unit and value, if each line is a metric.
    metric: Option<[usize; 3]>,
    /// Columns that are metrics, with names and units, if each line is a kernel.
    wide: Vec<(usize, NameId, NameId)>,
    /// Number and process of the last kernel: lines of one kernel are consecutive.
    last: Option<(String, String)>,
}

impl TableReader {
    fn read_columns(&mut self, names: &csv::StringRecord) {
        let place = |wanted: &str| names.iter().position(|name| name == wanted);
        self.id = place("ID");
        self.process = place("Process ID");
        self.kernel = place("Kernel Name");
        self.grid = place("Grid Size");
        self.block = place("Block Size");
        self.metric = match ["Metric Name", "Metric Unit", "Metric Value"].map(place) {
            [Some(name), Some(unit), Some(value)] => Some([name, unit, value]),
            _ => None,
        };
        if self.metric.is_some() {
            return;
        }
        for (column, name) in names.iter().enumerate() {
            if !PLACE_COLUMNS.contains(&name) {
                let name = self.profile.names.intern(name);
                self.wide.push((column, name, NameId::EMPTY));
            }
        }
    }

    fn read_line(&mut self, line: &csv::StringRecord) {
        let id = cell(line, self.id);
        if id.is_empty() {
            // The line of units has no kernel number.
            self.read_units(line);
            return;
        }
        let kernel = cell(line, self.kernel);
        // Other output of `ncu` or the program, between or after lines of the table.
        if kernel.is_empty() || id.parse::<u64>().is_err() {
            self.profile.damaged_lines += 1;
            return;
        }
        let process = cell(line, self.process);
        let is_same = self.metric.is_some()
            && self
                .last
                .as_ref()
                .is_some_and(|(last_id, last_process)| last_id == id && last_process == process);
        if !is_same {
            self.last = Some((id.to_owned(), process.to_owned()));
            let row = ProfiledKernel {
                name: self.profile.names.intern(kernel),
                process: process.parse().unwrap_or(-1),
                grid: three_sizes(cell(line, self.grid)),
                block: three_sizes(cell(line, self.block)),
            };
            self.profile.kernels.push(row);
        }
        match self.metric {
            Some([name, unit, value]) => {
                let name = self.profile.names.intern(cell(line, Some(name)));
                let unit = self.profile.names.intern(cell(line, Some(unit)));
                self.push_metric(name, unit, cell(line, Some(value)));
            }
            None => {
                for (column, name, unit) in std::mem::take(&mut self.wide) {
                    self.push_metric(name, unit, cell(line, Some(column)));
                    self.wide.push((column, name, unit));
                }
            }
        }
    }

    fn read_units(&mut self, line: &csv::StringRecord) {
        for (column, _, unit) in &mut self.wide {
            *unit = self.profile.names.intern(cell(line, Some(*column)));
        }
    }

    /// Keeps a metric. Texts, such as the name of a cache configuration, are not metrics.
    fn push_metric(&mut self, metric: NameId, unit: NameId, value: &str) {
        let Some(value) = metric_value(value) else {
            return;
        };
        let Some(kernel) = self.profile.kernels.len().checked_sub(1) else {
            return;
        };
        self.profile.metrics.push(ProfiledMetric {
            // Kernel numbers past 32 bits match no kernel.
            kernel: u32::try_from(kernel).unwrap_or(u32::MAX),
            metric,
            unit,
            value,
        });
    }
}

/// Returns a cell; empty if the line or the column is missing.
fn cell(line: &csv::StringRecord, column: Option<usize>) -> &str {
    column
        .and_then(|column| line.get(column))
        .unwrap_or_default()
        .trim()
}

/// Parses a number as `ncu` prints it: `1,234.5`. `None` for locales with a decimal comma
/// (`1.234,5`).
fn metric_value(text: &str) -> Option<f64> {
    let (dot, comma) = (text.find('.'), text.rfind(','));
    if dot.is_some_and(|dot| comma.is_some_and(|comma| dot < comma)) {
        return None;
    }
    let digits: String = text.chars().filter(|symbol| *symbol != ',').collect();
    digits.parse().ok().filter(|value: &f64| value.is_finite())
}

/// Parses the sizes in `(128, 1, 1)`; zeros if there are not three.
fn three_sizes(text: &str) -> [u32; 3] {
    let inner = text.trim_start_matches('(').trim_end_matches(')');
    let sizes: Vec<u32> = inner
        .split(',')
        .map_while(|size| size.trim().parse().ok())
        .collect();
    sizes.try_into().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDE: &str = concat!(
        "==PROF== Connected to process 41\nloss 0.5\n",
        "\"ID\",\"Process ID\",\"Process Name\",\"Host Name\",\"Kernel Name\",\"Context\",\"Stream\",",
        "\"Block Size\",\"Grid Size\",\"Device\",\"CC\",\"dram__bytes.sum\",\"launch__func_cache_config\"\n",
        "\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"Mbyte\",\"\"\n",
        "\"0\",\"41\",\"python\",\"h\",\"void gemm<4>(float *, int)\",\"1\",\"7\",\"(128, 1, 1)\",\"(16, 8, 1)\",",
        "\"0\",\"8.0\",\"1,024.5\",\"CachePreferNone\"\n",
        "\"1\",\"41\",\"python\",\"h\",\"relu\",\"1\",\"7\",\"(64, 1, 1)\",\"(4, 1, 1)\",\"0\",\"8.0\",\"2\",\"x\"\n",
        "==PROF== Disconnected\n",
    );

    #[test]
    fn a_column_is_a_metric() {
        let profile = read_compute_csv(WIDE.as_bytes()).expect("a table");
        let kernel = profile.kernels.row(0);
        assert_eq!(profile.names.get(kernel.name), "void gemm<4>(float *, int)");
        assert_eq!((kernel.grid, kernel.block), ([16, 8, 1], [128, 1, 1]));
        assert_eq!(kernel.process, 41);
        let metric = profile.metrics.row(0);
        assert_eq!(profile.names.get(metric.metric), "dram__bytes.sum");
        assert_eq!(profile.names.get(metric.unit), "Mbyte");
        assert_eq!(profile.metrics.value, [1_024.5, 2.0]);
        assert_eq!(profile.metrics.kernel, [0, 1]);
        assert_eq!(profile.damaged_lines, 1, "what is printed at the end");
    }

    #[test]
    fn a_line_is_a_metric() {
        let text = concat!(
            "\"ID\",\"Process ID\",\"Kernel Name\",\"Metric Name\",\"Metric Unit\",\"Metric Value\"\n",
            "\"0\",\"4\",\"a\",\"x.sum\",\"byte\",\"10\"\n",
            "\"0\",\"4\",\"a\",\"y.sum\",\"\",\"11\"\n",
            "\"1\",\"4\",\"a\",\"x.sum\",\"byte\",\"12\"\n",
            // Another process restarts from 0.
            "\"0\",\"5\",\"a\",\"x.sum\",\"byte\",\"13\"\n",
        );
        let profile = read_compute_csv(text.as_bytes()).expect("a table");
        assert_eq!(profile.kernels.process, [4, 4, 5]);
        assert_eq!(profile.metrics.kernel, [0, 0, 1, 2]);
        assert_eq!(
            profile.kernels.grid[0], [0; 3],
            "older versions do not say it"
        );
    }

    #[test]
    fn a_file_without_the_table_is_refused() {
        assert!(read_compute_csv(&b"a,b\n1,2\n"[..]).is_err());
        assert!(!is_compute_csv(b"\"ID\",\"Process ID\"\n"));
        assert!(is_compute_csv(WIDE.as_bytes()));
    }

    #[test]
    fn numbers_are_those_of_one_locale() {
        for (text, value) in [
            ("1,234.5", Some(1_234.5)),
            ("1.234,5", None),
            ("12", Some(12.0)),
            ("inf", None),
            ("", None),
        ] {
            assert_eq!(metric_value(text), value, "{text}");
        }
    }

    /// Source that ends like a truncated gzip file.
    struct CutSource<'t>(&'t [u8]);

    impl Read for CutSource<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            if self.0.is_empty() {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            self.0.read(buffer)
        }
    }

    #[test]
    fn what_came_before_the_damage_of_a_packed_file_is_kept() {
        let end = WIDE.find("\"1\",\"41\"").expect("a second kernel");
        let profile = read_compute_csv(CutSource(&WIDE.as_bytes()[..end])).expect("a table");
        assert_eq!((profile.kernels.len(), profile.damaged_lines), (1, 1));
    }

    #[test]
    fn every_cut_is_read() {
        for end in 0..WIDE.len() {
            if let Ok(profile) = read_compute_csv(&WIDE.as_bytes()[..end]) {
                assert!(profile.kernels.len() <= 2);
            }
        }
    }
}
