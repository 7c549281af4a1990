//! Peak rates of devices, by name. The table is `device_peaks.txt` in this folder, which cites the
//! vendor's data sheet for each device. [`PeakTable`] puts lines of one's own before it.

/// Number formats of multiplications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// 64 bits.
    Fp64,
    /// 32 bits.
    Fp32,
    /// 32 bits, of which products use 19.
    Tf32,
    /// 16 bits.
    Fp16,
    /// 16 bits with the exponent range of 32-bit numbers.
    Bf16,
    /// 8 bits.
    Fp8,
}

/// Figures of a data sheet; `None` for figures it does not state.
#[derive(Clone, Debug, PartialEq)]
pub struct DevicePeaks {
    /// Words of the device's name.
    words: Vec<String>,
    /// Number of multiprocessors.
    pub multiprocessors: Option<u32>,
    /// 10¹² operations per second, by [`Precision`].
    tflops: [Option<f64>; 6],
    /// Memory bandwidth, 10⁹ bytes per second.
    pub gb_per_s: Option<f64>,
    /// Bandwidth of the links to other devices, one way, 10⁹ bytes per second.
    pub link_gb_per_s: Option<f64>,
    /// Title of the data sheet.
    pub sheet: String,
}

const TABLE: &str = include_str!("device_peaks.txt");

/// Words in device names that distinguish nothing.
const VENDOR_WORDS: [&str; 6] = ["", "nvidia", "amd", "instinct", "tesla", "geforce"];

/// Peak rates of devices: lines of a file, then the built-in table.
#[derive(Clone, Debug, Default)]
pub struct PeakTable {
    own: Vec<DevicePeaks>,
}

/// A malformed line of a file with peak rates.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "line {line} is not `name | SMs | fp64 fp32 tf32 fp16 bf16 fp8, TFLOP/s | memory, GB/s | \
     links, GB/s | source`; unknown figures are `-`: {text}"
)]
pub struct PeakLineError {
    line: usize,
    text: String,
}

impl PeakTable {
    /// Reads lines in the format of the built-in table, which are tried before it.
    ///
    /// # Errors
    /// A line is malformed.
    pub fn from_text(text: &str) -> Result<PeakTable, PeakLineError> {
        let mut own = vec![];
        for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| is_entry(line)) {
            own.push(DevicePeaks::from_line(line).ok_or_else(|| PeakLineError {
                line: number,
                text: line.to_owned(),
            })?);
        }
        Ok(PeakTable { own })
    }

    /// Returns the peaks of the device with this name in a trace and, if known, this number of
    /// multiprocessors. `None` if the device is unknown or is a part of a device.
    pub fn find(&self, name: &str, multiprocessors: Option<u32>) -> Option<DevicePeaks> {
        let name = name.to_lowercase();
        let words: Vec<&str> = name
            .split(|char: char| !char.is_ascii_alphanumeric())
            .collect();
        // a slice of a device has a share of its peaks, which no sheet states
        if words.contains(&"mig") {
            return None;
        }
        // a name may fit two lines: some traces call a device `MI250X/MI250`
        let mut all = self.own.iter().cloned().chain(all_peaks());
        all.find(|peaks| {
            let both = peaks.multiprocessors.zip(multiprocessors);
            peaks.has_name(&words) && both.is_none_or(|(whole, own)| whole == own)
        })
    }
}

impl DevicePeaks {
    /// Returns the peaks of a device in the built-in table: see [`PeakTable::find`].
    pub fn find(name: &str, multiprocessors: Option<u32>) -> Option<DevicePeaks> {
        PeakTable::default().find(name, multiprocessors)
    }

    /// Returns the peaks of a device with an abbreviated name: `H100`, `A100 PCIe`. Of several
    /// matching devices it takes the one with the fastest links, then the fastest memory: the SXM
    /// form.
    pub fn find_short(name: &str) -> Option<DevicePeaks> {
        let whole = DevicePeaks::find(name, None);
        if whole.as_ref().is_some_and(|peaks| peaks.gb_per_s.is_some()) {
            return whole;
        }
        let name = name.to_lowercase();
        let asked = name.split(|char: char| !char.is_ascii_alphanumeric());
        let asked: Vec<&str> = asked.filter(|word| !VENDOR_WORDS.contains(word)).collect();
        let fits = |peaks: &DevicePeaks| {
            let has = |word: &&str| peaks.words.iter().any(|own| word.starts_with(&**own));
            let is_named = peaks
                .words
                .first()
                .is_some_and(|first| asked.contains(&&**first));
            is_named && asked.iter().all(has)
        };
        let mut best: Option<DevicePeaks> = None;
        for peaks in all_peaks().filter(fits) {
            let speed = |peaks: &DevicePeaks| [peaks.link_gb_per_s, peaks.gb_per_s];
            if best.as_ref().is_none_or(|best| speed(&peaks) > speed(best)) {
                best = Some(peaks);
            }
        }
        best.or(whole)
    }

    /// Returns names of devices with known peaks, such as `h100 pcie`: those whose first word
    /// occurs in `name`, else all.
    pub fn names_like(name: &str) -> Vec<String> {
        let name = name.to_lowercase();
        let all: Vec<DevicePeaks> = all_peaks().collect();
        let is_like = |peaks: &&DevicePeaks| {
            peaks
                .words
                .first()
                .is_some_and(|first| name.contains(&**first))
        };
        let similar: Vec<String> = all.iter().filter(is_like).map(DevicePeaks::name).collect();
        if similar.is_empty() {
            all.iter().map(DevicePeaks::name).collect()
        } else {
            similar
        }
    }

    /// Joins the words that a device's name must contain.
    pub fn name(&self) -> String {
        let words = self.words.iter().filter(|word| !word.starts_with('!'));
        let words: Vec<&str> = words.map(String::as_str).collect();
        words.join(" ")
    }

    /// Peak rate for a precision, 10¹² operations per second; `None` if unknown.
    pub fn tflops(&self, precision: Precision) -> Option<f64> {
        self.tflops[precision as usize]
    }

    fn has_name(&self, words: &[&str]) -> bool {
        let Some((first, others)) = self.words.split_first() else {
            return false;
        };
        let fits = |word: &String| match word.strip_prefix('!') {
            Some(other) => !words.contains(&other),
            None => words.iter().any(|own| own.starts_with(&**word)),
        };
        words.contains(&&**first) && others.iter().all(fits)
    }

    /// Parses a line of the table; `None` if it is malformed.
    fn from_line(line: &str) -> Option<DevicePeaks> {
        let columns: Vec<&str> = line.split('|').map(str::trim).collect();
        let [words, multiprocessors, tflops, memory, link, sheet] = columns[..] else {
            return None;
        };
        let rates: Option<Vec<Option<f64>>> = tflops.split_whitespace().map(figure).collect();
        let words = words.split_whitespace().map(str::to_lowercase);
        Some(DevicePeaks {
            words: words.collect(),
            multiprocessors: match multiprocessors {
                "-" => None,
                text => Some(text.parse().ok()?),
            },
            tflops: rates?.try_into().ok()?,
            gb_per_s: figure(memory)?,
            link_gb_per_s: figure(link)?,
            sheet: sheet.to_owned(),
        })
    }
}

/// Parses a rate; the inner `None` stands for `-`, the outer one for anything else.
fn figure(text: &str) -> Option<Option<f64>> {
    if text == "-" {
        return Some(None);
    }
    let rate: f64 = text.parse().ok()?;
    (rate.is_finite() && rate > 0.0).then_some(Some(rate))
}

fn is_entry(line: &str) -> bool {
    !line.trim().is_empty() && !line.starts_with('#')
}

fn table_lines() -> impl Iterator<Item = &'static str> {
    TABLE.lines().filter(|line| is_entry(line))
}

fn all_peaks() -> impl Iterator<Item = DevicePeaks> {
    table_lines().filter_map(DevicePeaks::from_line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_read() {
        for line in table_lines() {
            let peaks = DevicePeaks::from_line(line);
            let peaks = peaks.unwrap_or_else(|| panic!("{line}"));
            let rates = [Precision::Fp16, Precision::Bf16].map(|precision| peaks.tflops(precision));
            assert_ne!(rates, [None, None], "{line}");
            assert!(!peaks.sheet.is_empty(), "{line}");
            // missing figures must be written as `-`
            assert!(!peaks.sheet.contains("memory"), "{line}");
        }
    }

    #[test]
    fn lines_of_ones_own_come_first() {
        let own = "# measured\n\nH200 | - | - - - - 700 - | 4100.5 | - | a product of 8192\n";
        let table = PeakTable::from_text(own).expect("reads");
        let found = table.find("NVIDIA H200", Some(132)).expect("found");
        assert_eq!(found.tflops(Precision::Bf16), Some(700.0));
        assert_eq!(found.tflops(Precision::Fp16), None);
        assert_eq!(found.gb_per_s, Some(4100.5));
        let other = table.find("NVIDIA A100-SXM4-80GB", None);
        assert_eq!(other, DevicePeaks::find("NVIDIA A100-SXM4-80GB", None));
        for line in [
            "h200",
            "h200 | - | - - - - 700 | 4100 | - | five rates",
            "h200 | - | - - - - x - | 4100 | - | no number",
            "h200 | - | - - - - 0 - | 4100 | - | no rate",
            "h200 | - | - - - - 1 - | inf | - | no rate",
            "h200 | x | - - - - 1 - | 1 | - | no number",
        ] {
            let text = format!("# one\n{line}\n");
            let error = PeakTable::from_text(&text).expect_err(line);
            assert_eq!((error.line, &*error.text), (2, line));
        }
    }

    #[test]
    fn names_that_are_like_an_unknown_one_are_listed() {
        let similar = DevicePeaks::names_like("NVIDIA H100");
        assert_eq!(similar, ["h100 nvl", "h100 pcie", "h100 80gb hbm3"]);
        let all = DevicePeaks::names_like("Trainium 2");
        assert_eq!(all.len(), table_lines().count());
    }

    #[test]
    fn names_as_traces_have_them() {
        let bf16 = |name: &str| {
            let peaks = DevicePeaks::find(name, None)?;
            Some((peaks.tflops(Precision::Bf16)?, peaks.gb_per_s))
        };
        for (name, want) in [
            ("NVIDIA H100 80GB HBM3", Some((989.5, Some(3350.0)))),
            ("NVIDIA H100 PCIe", Some((756.5, Some(2000.0)))),
            ("NVIDIA H100 NVL", Some((835.5, Some(3900.0)))),
            ("NVIDIA H200", Some((989.5, Some(4800.0)))),
            ("NVIDIA A100-SXM4-80GB", Some((312.0, Some(2039.0)))),
            ("NVIDIA A100-SXM4-40GB", Some((312.0, Some(1555.0)))),
            ("NVIDIA A100 80GB PCIe", Some((312.0, Some(1935.0)))),
            ("NVIDIA A100-PCIE-40GB", Some((312.0, Some(1555.0)))),
            // its memory bandwidth is not published
            ("NVIDIA A100-PG509-200", Some((312.0, None))),
            ("NVIDIA B200", Some((2250.0, Some(8000.0)))),
            ("NVIDIA L4", Some((121.0, Some(300.0)))),
            ("NVIDIA L40S", Some((362.05, Some(864.0)))),
            ("NVIDIA L40", Some((181.05, Some(864.0)))),
            ("NVIDIA GeForce RTX 4090", Some((165.2, Some(1008.0)))),
            ("AMD Instinct MI300X VF", Some((1307.4, Some(5300.0)))),
            ("AMD Instinct MI250X", Some((191.5, Some(1638.4)))),
            ("TPU v5 lite", Some((197.0, Some(819.0)))),
            ("TPU v5p", Some((459.0, Some(2765.0)))),
            ("TPU v6e", None),
            // no bf16 support
            ("Tesla V100-SXM2-32GB", None),
            ("NVIDIA GeForce RTX 4090 Laptop GPU", None),
            ("NVIDIA A100-SXM4-80GB MIG 3g.40gb", None),
            ("AMD Radeon Graphics", None),
            ("ARTEMIS", None),
            ("", None),
        ] {
            assert_eq!(bf16(name), want, "{name}");
        }
        let v100 = DevicePeaks::find("Tesla V100-SXM2-32GB", Some(80)).expect("known");
        assert_eq!(v100.tflops(Precision::Fp16), Some(125.0));
    }

    #[test]
    fn a_short_name_is_that_of_the_fastest_of_its_devices() {
        let found = |name: &str| DevicePeaks::find_short(name).map(|peaks| peaks.name());
        for (name, want) in [
            ("H100", "h100 80gb hbm3"),
            ("NVIDIA H100", "h100 80gb hbm3"),
            ("H100 PCIe", "h100 pcie"),
            ("A100", "a100 sxm 80gb"),
            ("A100 PCIe", "a100 80gb pcie"),
            ("V100", "v100 sxm2"),
            ("MI300X", "mi300x"),
            ("NVIDIA A100-SXM4-40GB", "a100 sxm 40gb"),
        ] {
            assert_eq!(found(name).as_deref(), Some(want), "{name}");
        }
        assert_eq!(found("H100 MIG"), None);
        assert_eq!(found("H101"), None);
    }

    #[test]
    fn of_two_lines_that_fit_a_name_the_one_with_its_compute_units_counts() {
        let name = "AMD Instinct MI250X/MI250";
        let sheet = |units| DevicePeaks::find(name, Some(units)).map(|peaks| peaks.sheet);
        assert_eq!(
            sheet(110).as_deref(),
            Some("AMD Instinct MI250X Data Sheet")
        );
        assert_eq!(sheet(104).as_deref(), Some("AMD Instinct MI250 Data Sheet"));
        assert_eq!(sheet(38), None);
    }

    #[test]
    fn a_part_of_a_device_has_no_peaks() {
        let name = "AMD Instinct MI300X";
        assert!(DevicePeaks::find(name, Some(304)).is_some());
        // one of eight partitions
        assert_eq!(DevicePeaks::find(name, Some(38)), None);
    }
}
