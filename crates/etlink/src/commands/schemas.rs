//! The JSON schemas of all reports.

use super::analyze::snapshot::SnapshotReport;
use super::analyze::{Analyzed, AnalyzedRun, AsHta, OF_ALL_RANKS};
use super::check::Checked;
use super::diff::DiffReport;
use super::diff::several::SeveralRuns;
use super::findings::FindingsReport;
use super::generate::GeneratedRun;
use super::inspect::facts::FileFacts;
use super::ranks::RanksReport;
use super::ranks::communicators::FolderCommunicators;
use super::ranks::hang::FolderHangs;
use super::replay::Replayed;
use super::replay::validation::Validated;
use super::report::WrittenPage;
use super::scale::ScaledRun;
use super::schedule::ScheduleReport;
use super::trigger::TriggeredRecording;
use crate::envelope::{Envelope, FileReports, JsonReport, RunReports};
use crate::op_tables::RunTables;
use etlink_analysis::RankOps;
use etlink_run::anonymous::AnonymousCopy;
use etlink_run::convert::ConvertReport;
use etlink_run::job::JobReport;
use etlink_run::merge::MergeReport;
use etlink_run::prepared::PreparedShard;
use etlink_run::simulated::SimulationResult;
use etlink_torch::Manifest;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde_json::{Value, json};

/// A JSON Schema with its name.
#[derive(Clone, Debug)]
pub struct NamedSchema {
    /// Name and version: `etlink.replay.v1`.
    pub name: String,
    /// The schema.
    pub schema: Value,
}

/// Returns the schema of each report that `--json` prints, and of `etlink.json`.
pub fn json_schemas() -> Vec<NamedSchema> {
    let mut analyze = report_schema::<RunReports<Analyzed>>();
    let tables = [etlink_analysis::TABLES, &OF_ALL_RANKS].concat();
    make_optional(&mut analyze, &["Analyzed", "Ranked", "RunTotals"], &tables);
    let mut hta = report_schema::<RunReports<AsHta>>();
    let tables = [
        etlink_analysis::hta::RANK_TABLES,
        &etlink_analysis::hta::RUN_TABLES,
    ]
    .concat();
    make_optional(&mut hta, &["Ranked", "HtaRunTables"], &tables);
    vec![
        analyze,
        report_schema::<FileReports<Checked>>(),
        report_schema::<RunReports<FolderCommunicators>>(),
        report_schema::<AnonymousCopy>(),
        report_schema::<ConvertReport>(),
        report_schema::<DiffReport<'_>>(),
        report_schema::<SeveralRuns>(),
        report_schema::<RunReports<FindingsReport>>(),
        report_schema::<GeneratedRun>(),
        report_schema::<RunReports<FolderHangs>>(),
        hta,
        report_schema::<FileReports<FileFacts>>(),
        report_schema::<JobReport>(),
        manifest_schema(),
        report_schema::<FileReports<SnapshotReport>>(),
        report_schema::<MergeReport>(),
        report_schema::<RunReports<AnalyzedRun<RankOps>>>(),
        report_schema::<RunReports<RanksReport>>(),
        report_schema::<RunReports<Replayed>>(),
        report_schema::<WrittenPage>(),
        report_schema::<ScaledRun>(),
        report_schema::<ScheduleReport>(),
        report_schema::<PreparedShard>(),
        report_schema::<SimulationResult>(),
        report_schema::<RunTables>(),
        report_schema::<TriggeredRecording>(),
        report_schema::<Validated>(),
    ]
}

/// Returns the schema of a report in its envelope.
fn report_schema<T: JsonReport + JsonSchema>() -> NamedSchema {
    let mut schema = root_schema::<Envelope<'_, T>>(T::SCHEMA);
    // the type cannot express its schema's name and version
    if let Some(properties) = schema.get_mut("properties") {
        properties["schema"] = json!({ "const": T::SCHEMA });
        properties["version"] = json!({ "const": T::VERSION });
    }
    NamedSchema {
        name: format!("{}.v{}", T::SCHEMA, T::VERSION),
        schema: schema.into(),
    }
}

/// Returns the schema of `etlink.json`, which `record` writes.
fn manifest_schema() -> NamedSchema {
    let name = "etlink.manifest";
    NamedSchema {
        name: format!("{name}.v1"),
        schema: root_schema::<Manifest>(name).into(),
    }
}

fn root_schema<T: JsonSchema>(title: &str) -> Schema {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.insert("title".to_owned(), title.into());
    schema
}

/// Makes tables of these types optional: with `--table` only one is printed.
fn make_optional(schema: &mut NamedSchema, types: &[&str], tables: &[&str]) {
    for name in types {
        let required = schema.schema["$defs"][name]["required"].as_array_mut();
        let is_table = |field: &Value| field.as_str().is_some_and(|name| tables.contains(&name));
        if let Some(required) = required {
            required.retain(|field| !is_table(field));
        }
    }
}
