//! Peak rates of devices, by name. The table is `device_peaks.txt` in this folder, which cites the
//! vendor's data sheet for each device.

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
    words: Vec<&'static str>,
    /// Number of multiprocessors.
    pub multiprocessors: Option<u32>,
    /// 10¹² operations per second, by [`Precision`].
    tflops: [Option<f64>; 6],
    /// Memory bandwidth, 10⁹ bytes per second.
    pub gb_per_s: Option<f64>,
    /// Bandwidth of the links to other devices, one way, 10⁹ bytes per second.
    pub link_gb_per_s: Option<f64>,
    /// Title of the data sheet.
    pub sheet: &'static str,
}

const TABLE: &str = include_str!("device_peaks.txt");

/// Words in device names that distinguish nothing.
const VENDOR_WORDS: [&str; 6] = ["", "nvidia", "amd", "instinct", "tesla", "geforce"];

impl DevicePeaks {
    /// Returns the peaks of the device with this name in a trace and, if known, this number of
    /// multiprocessors. `None` if the device is unknown or is a part of a device.
    pub fn find(name: &str, multiprocessors: Option<u32>) -> Option<DevicePeaks> {
        let name = name.to_lowercase();
        let words: Vec<&str> = name
            .split(|char: char| !char.is_ascii_alphanumeric())
            .collect();
        // a slice of a device has a share of its peaks, which no sheet states
        if words.contains(&"mig") {
            return None;
        }
        // a name may fit two lines: some traces call a device `MI250X/MI250`
        all_peaks().find(|peaks| {
            let both = peaks.multiprocessors.zip(multiprocessors);
            peaks.has_name(&words) && both.is_none_or(|(whole, own)| whole == own)
        })
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
            let has = |word: &&str| peaks.words.iter().any(|own| word.starts_with(own));
            let is_named = peaks
                .words
                .first()
                .is_some_and(|first| asked.contains(first));
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
                .is_some_and(|first| name.contains(first))
        };
        let similar: Vec<String> = all.iter().filter(is_like).map(DevicePeaks::name).collect();
        if similar.is_empty() {
            all.iter().map(DevicePeaks::name).collect()
        } else {
            similar
        }
    }

    /// Joins the words that a device's name must contain.
    fn name(&self) -> String {
        let words = self.words.iter().filter(|word| !word.starts_with('!'));
        let words: Vec<&str> = words.copied().collect();
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
        let fits = |word: &&str| match word.strip_prefix('!') {
            Some(other) => !words.contains(&other),
            None => words.iter().any(|own| own.starts_with(word)),
        };
        words.contains(first) && others.iter().all(fits)
    }

    /// Parses a line of the table. `None` for malformed lines, which a test rejects.
    fn from_line(line: &'static str) -> Option<DevicePeaks> {
        let columns: Vec<&str> = line.split('|').map(str::trim).collect();
        let [words, multiprocessors, tflops, memory, link, sheet] = columns[..] else {
            return None;
        };
        let rates: Vec<Option<f64>> = tflops.split_whitespace().map(number).collect();
        Some(DevicePeaks {
            words: words.split_whitespace().collect(),
            multiprocessors: multiprocessors.parse().ok(),
            tflops: rates.try_into().ok()?,
            gb_per_s: number(memory),
            link_gb_per_s: number(link),
            sheet,
        })
    }
}

/// Parses a number; `None` for `-`.
fn number(text: &str) -> Option<f64> {
    text.parse().ok()
}

fn table_lines() -> impl Iterator<Item = &'static str> {
    let lines = TABLE.lines();
    lines.filter(|line| !line.is_empty() && !line.starts_with('#'))
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
            assert!(peaks.tflops(Precision::Fp16).is_some(), "{line}");
            assert!(!peaks.sheet.is_empty(), "{line}");
            // missing figures must be written as `-`
            assert!(!peaks.sheet.contains("memory"), "{line}");
            let numbers = line.split('|').skip(1).take(4);
            for word in numbers.flat_map(str::split_whitespace) {
                let known = word == "-" || word.parse::<f64>().is_ok();
                assert!(known, "{word} of {line}");
            }
        }
    }

    #[test]
    fn names_that_are_like_an_unknown_one_are_listed() {
        let similar = DevicePeaks::names_like("NVIDIA H100");
        assert_eq!(similar, ["h100 nvl", "h100 pcie", "h100 80gb hbm3"]);
        let all = DevicePeaks::names_like("TPU v5");
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
        assert_eq!(sheet(110), Some("AMD Instinct MI250X Data Sheet"));
        assert_eq!(sheet(104), Some("AMD Instinct MI250 Data Sheet"));
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
