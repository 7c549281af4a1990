//! The report as one self-contained HTML page.
//!
//! ```text
//! Analysis, LinkReport, Figures of each rank ─────┐
//! Met (skew between ranks) ───────────────────────┼─ html ─> <script> JSON, gzip, base64 </script>
//! RankTrees: call trees ─ PageTrees ──────────────┤          + script + style
//! Timeline of all ranks, and of some ─ Packed ────┘
//! ```
//! The page shows exactly these values: its script formats, sorts and draws. The script computes no
//! figure except the sums of time that a reader selects in a timeline. `web/` has the script's
//! sources; the build result is committed in `web/dist`, and `cargo dev web --check` compares the
//! two. Names from traces do not enter the HTML, except the title, which is escaped.
//!
//! A page takes at most 5 MB: each part has a budget ([`TIMELINE_BYTES`], `TABLE_BYTES`,
//! `TREE_BYTES`), is measured in its packed form, and made again with less detail until it fits.
//! The page states what is left out.

mod call_trees;
mod compared;
mod drawn_collective;
mod finding_link;
mod memory;
mod packed_timeline;
mod path_columns;
mod ranges;
mod rank_stats;
mod run_timeline;
mod simulated;
mod strings;
mod summary;
mod timeline;
mod tooltip;
mod trace_timeline;
mod tracks;
mod wait_columns;
mod window;
mod written_graph;

#[cfg(test)]
mod tests;

pub use call_trees::{RankTrees, TREE_NODES};
pub use compared::{ComparedRow, ComparedRuns, ComparedTable};
pub use finding_link::FindingLink;
pub use memory::{MemoryChart, StackCurve, memory_charts, snapshot_chart};
pub use packed_timeline::PackedTimeline;
pub use rank_stats::RankStats;
pub use run_timeline::{RankPlace, RunTimeline};
pub use simulated::{
    SimulatedCommRow, SimulatedKindRow, SimulatedPart, SimulatedRankRow, SimulatedSpan,
    SimulatedTrack,
};
pub use timeline::Timeline;
pub use trace_timeline::{TracedRank, trace_timeline};
pub use window::TimelineWindow;
pub use written_graph::{WrittenGraph, graph_timeline};

use base64::engine::{Engine, general_purpose::STANDARD};
use borsh::{BorshDeserialize, BorshSerialize};
use call_trees::PageTrees;
use etlink_analysis::{RankAnalysis, RunTotals};
use etlink_link::{EdgeKind, LinkReport};
use etlink_model::Diagnostic;
use etlink_replay::{PathReport, ReplayFigures};
use packed_timeline::pack_json;
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::io::{self, Write};
use summary::SummaryCard;

const SCRIPT: &str = include_str!("../../web/dist/page.js");
const STYLE: &str = include_str!("../../web/dist/page.css");

/// Budget for ranges in all timelines of a page.
pub const RANGES: usize = 100_000;
/// Page budget for all timelines, in bytes.
pub const TIMELINE_BYTES: usize = 3_200_000;
/// Page budget for everything else, in bytes.
const TABLE_BYTES: usize = 1_250_000;
/// Number of points in memory charts over all ranks.
pub const MEMORY_POINTS: usize = 40_000;
/// Largest number of ranks with timelines.
pub const TIMELINES: usize = 8;
/// Number of listed critical-path steps over all ranks.
pub const PATH_STEPS: usize = 800;
/// Number of records per table over all ranks.
const RECORDS: usize = 8_000;
/// Largest number of records per table.
const LONGEST: usize = 1_000;
/// Longest name in a table, in characters.
const LONG: usize = 1_000;

/// One rank in the page.
#[derive(Clone, Debug, Serialize, BorshSerialize, BorshDeserialize)]
pub struct ReportRank {
    /// Label of the rank: its number, or the name of its file.
    pub label: String,
    /// File of the device trace.
    pub device_trace: String,
    /// File of the host trace.
    pub host_trace: Option<String>,
    /// Device model.
    pub device: Option<String>,
    /// Results of `etlink analyze`.
    #[serde(flatten)]
    pub analysis: RankAnalysis,
    /// Memory over time, per device.
    pub memory_charts: Vec<MemoryChart>,
    /// Results of `etlink link`; `None` for a written graph.
    pub link: Option<LinkReport>,
    /// Results of `etlink replay`; `None` without a graph.
    pub figures: Option<ReplayFigures>,
    /// Critical path of the replay, with its longest steps.
    pub critical_path: Option<PathReport>,
    /// Call trees, packed separately.
    #[serde(skip)]
    pub trees: RankTrees,
}

/// Contents of a page.
#[derive(Clone, Copy, Debug)]
pub struct ReportPage<'p> {
    /// Title, such as the name of the recorded folder.
    pub title: &'p str,
    /// Ranks of the run.
    pub ranks: &'p [ReportRank],
    /// Totals over all ranks.
    pub total: &'p RunTotals,
    /// Comparison of ranks, if there are several.
    pub met: Option<&'p RankStats>,
    /// Timelines, the one of all ranks first if it exists; for each rank the typical step first.
    pub timelines: &'p [PackedTimeline],
    /// Comparison with an earlier run, if there is one.
    pub compared: Option<&'p ComparedRuns>,
    /// Simulation of the run, if there is one.
    pub simulated: Option<&'p SimulatedPart>,
    /// Notes shown at the top.
    pub diagnostics: &'p [Diagnostic],
    /// Largest possible gains of the run.
    pub findings: &'p [FindingLink],
}

#[derive(Serialize)]
struct PageData<'p> {
    written_by: String,
    title: &'p str,
    sentence: String,
    cards: Vec<SummaryCard>,
    diagnostics: &'p [Diagnostic],
    findings: &'p [FindingLink],
    compared: Option<&'p ComparedRuns>,
    simulated: Option<&'p SimulatedPart>,
    ranks: Vec<Value>,
    total: Value,
    /// Shortened tables, with the number of missing records.
    cut: Vec<ShortenedTable>,
    met: Option<&'p RankStats>,
    kinds: [&'static str; timeline::KINDS.len()],
    edges: [&'static str; EdgeKind::ALL.len()],
}

#[derive(Serialize)]
struct ShortenedTable {
    rank: String,
    table: String,
    records: usize,
    of: usize,
}

/// Renders the page. The same values give the same bytes.
///
/// # Errors
/// None in practice: writing to memory does not fail.
pub fn render_page(page: &ReportPage<'_>) -> io::Result<Vec<u8>> {
    let packed = pack_tables(page)?;
    let rank_trees: Vec<&RankTrees> = page.ranks.iter().map(|rank| &rank.trees).collect();
    let trees = PageTrees::pack(&rank_trees)?;
    let timelines: usize = page
        .timelines
        .iter()
        // The tags around a timeline are shorter than 100 bytes.
        .map(|timeline| timeline.text.len() + 100)
        .sum();
    let trees_len = trees.as_ref().map_or(0, String::len);
    let data_len = packed.len() + trees_len + timelines;
    let mut out = Vec::with_capacity(data_len + SCRIPT.len() + STYLE.len() + 2_000);
    out.extend_from_slice(page_head().as_bytes());
    write!(
        out,
        "<title>{} · etlink report</title>\n<style>",
        escape_html(page.title)
    )?;
    out.extend_from_slice(STYLE.as_bytes());
    // The sentence is in the HTML itself, so it is visible while the script unpacks the rest.
    write!(
        out,
        "</style>\n</head>\n<body>\n<div id=\"page\"><p class=\"starting\">{}</p></div>\n",
        escape_html(&summary::summary_sentence(page))
    )?;
    writeln!(
        out,
        "<noscript><p>The rest of this report needs JavaScript.</p></noscript>"
    )?;
    // Browsers ignore a script of type `text/plain`, which holds the page's data.
    writeln!(
        out,
        "<script type=\"text/plain\" id=\"data\">{packed}</script>"
    )?;
    if let Some(trees) = trees {
        writeln!(
            out,
            "<script type=\"text/plain\" id=\"trees\">{trees}</script>"
        )?;
    }
    for timeline in page.timelines {
        writeln!(
            out,
            "<script type=\"text/plain\" class=\"timeline\">{}</script>",
            timeline.text
        )?;
    }
    out.extend_from_slice(b"<script>");
    out.extend_from_slice(SCRIPT.as_bytes());
    out.extend_from_slice(b"</script>\n</body>\n</html>\n");
    Ok(out)
}

/// Returns the HTML head up to the title. Its policy forbids all network access, and all scripts
/// and style sheets except the built ones, which are identified by their SHA-256.
fn page_head() -> String {
    let script_hash = policy_hash(SCRIPT);
    let style_hash = policy_hash(STYLE);
    let policy = format!(
        "default-src 'none'; script-src '{script_hash}'; style-src '{style_hash}'; \
         img-src data:; base-uri 'none'; form-action 'none'"
    );
    // The empty icon keeps browsers from requesting /favicon.ico, which the policy forbids.
    format!(
        r#"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
"#
    )
}

/// Returns a CSP hash source, <https://www.w3.org/TR/CSP3/#grammardef-hash-source>, of the bytes
/// between the tags.
fn policy_hash(inline: &str) -> String {
    let digest = Sha256::digest(inline.as_bytes());
    format!("sha256-{}", STANDARD.encode(digest))
}

fn escape_html(text: &str) -> String {
    // `&` is replaced first; otherwise it would escape the other replacements again.
    strings::shorten_text(text, LONG)
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// Packs everything except timelines and call trees, with as many records as fit.
fn pack_tables(page: &ReportPage<'_>) -> io::Result<String> {
    // A run of a thousand ranks still gets the first 20 records per rank.
    let mut most = (RECORDS / page.ranks.len().max(1)).clamp(20, LONGEST);
    let mut all = LONGEST;
    loop {
        let packed = pack_json(&page_data(page, most, all)?)?;
        if packed.len() <= TABLE_BYTES || all <= 1 {
            return Ok(packed);
        }
        // Halving reaches the budget in a few tries; the first records of a table are the most
        // expensive.
        (most, all) = ((most / 2).max(1), all / 2);
    }
}

/// Builds the page data with at most `most` records per rank's table and `all` per table of all
/// ranks.
fn page_data<'p>(page: &ReportPage<'p>, most: usize, all: usize) -> io::Result<PageData<'p>> {
    let mut cut = vec![];
    let mut ranks = vec![];
    for rank in page.ranks {
        let mut value = serde_json::to_value(rank)?;
        // Records are removed as JSON values: one function serves all tables, whatever their
        // columns are.
        shorten_tables(&mut value, &rank.label, most, &mut cut);
        ranks.push(value);
    }
    let mut total = serde_json::to_value(page.total)?;
    shorten_tables(&mut total, "", all, &mut cut);
    Ok(PageData {
        written_by: format!("etlink {}", env!("CARGO_PKG_VERSION")),
        title: page.title,
        sentence: summary::summary_sentence(page),
        cards: summary::summary_cards(page),
        diagnostics: page.diagnostics,
        findings: page.findings,
        compared: page.compared,
        simulated: page.simulated,
        ranks,
        total,
        cut,
        met: page.met,
        kinds: timeline::KINDS,
        edges: EdgeKind::ALL.map(EdgeKind::name),
    })
}

/// Keeps the first records of each table, which are the most expensive, and the beginning of each
/// name.
fn shorten_tables(of: &mut Value, rank: &str, most: usize, cuts: &mut Vec<ShortenedTable>) {
    let tables = of.as_object_mut().into_iter().flatten();
    for (table, value) in tables {
        let Some(records) = value.as_array_mut() else {
            continue;
        };
        if records.len() > most {
            cuts.push(ShortenedTable {
                rank: rank.to_owned(),
                table: table.clone(),
                records: most,
                of: records.len(),
            });
            records.truncate(most);
        }
        for record in records.iter_mut().filter_map(Value::as_object_mut) {
            // A text has at least as many bytes as characters, so comparing bytes is safe.
            record.values_mut().for_each(|field| match field {
                Value::String(text) if text.len() > LONG || text.contains(char::is_control) => {
                    *text = strings::shorten_text(text, LONG)
                }
                _ => {}
            });
        }
    }
}
