//! Recordings of ROCm's rocprofv3.

use crate::tool::{Tool, gzip};
use rusqlite::Connection;

/// Two annotated steps of two kernels each.
const JSON: &str = include_str!("../../testdata/recorders/process.rocprof.json");

/// The same steps as a database: its tables end in `@`, and `ENVIRONMENT` stands for the recorded
/// one.
const DATABASE: &str = include_str!("../../testdata/recorders/process.rocpd.sql");

#[test]
fn json_of_rocprofv3_is_known_linked_and_analyzed() {
    let tool = Tool::new();
    tool.file("run/gpu1/4711_results.json.gz", gzip(JSON.as_bytes()));
    let file = "run/gpu1/4711_results.json.gz";
    let facts = tool
        .run(&format!("inspect {file} --json"))
        .exits(0)
        .only_file();
    assert_eq!(facts["kind"], "rocprof_json");
    assert_eq!(facts["device_rows"], 4);
    assert_eq!(facts["runtime_calls"], 4);
    assert_eq!(facts["devices"]["AMD Instinct MI300X"], 1);
    assert_eq!(facts["anomalies"], serde_json::json!({}));
    tool.run(&format!("link --device {file} -o one.et"))
        .exits(0)
        .says("4 launched, 4 owned by an op");
    tool.run("check one.et").exits(0).says("ok");
    tool.run(&format!("analyze {file}"))
        .exits(0)
        .says("Cijk_gemm")
        .says("forward");
    tool.run(&format!("replay {file}"))
        .exits(0)
        .says("4 device ops");
    tool.run("merge run -o out")
        .exits(0)
        .says("4 of 4 device rows launched");
}

#[test]
fn a_host_trace_beside_it_has_no_ops_to_be_matched_with() {
    let tool = Tool::new();
    tool.file("4711_results.json", JSON);
    tool.run("link --host {pairs}/mlp-2.15.0/torch_et_0.json.gz --device 4711_results.json")
        .exits(2)
        .complains(&[
            "different programs",
            "rocprofv3 does not record PyTorch ops",
        ]);
}

#[test]
fn what_is_cut_or_of_several_processes_is_said() {
    let tool = Tool::new();
    tool.file("cut.json", &JSON[..JSON.len() - 60]);
    let facts = tool.run("inspect cut.json --json").exits(0).only_file();
    let anomalies = facts["anomalies"].as_object().expect("a table");
    assert_eq!(anomalies.len(), 1, "{facts}");
    tool.run("inspect cut.json --strict").exits(1);
    let process = JSON
        .trim_start_matches("{\"rocprofiler-sdk-tool\":[")
        .trim_end_matches("]}");
    let both = format!("{{\"rocprofiler-sdk-tool\":[{process},{process}]}}");
    tool.file("both.json", both);
    tool.run("link --device both.json -o one.et")
        .exits(2)
        .complains(&["both.json", "2 processes", "one file per process"]);
    tool.file("none.json", "{\"rocprofiler-sdk-tool\": [");
    tool.run("inspect none.json")
        .exits(2)
        .complains(&["none.json", "--output-format json"]);
}

/// Writes a database of processes with these ranks.
fn draw_database(tool: &Tool, name: &str, ranks: &[Option<i64>]) {
    let connection = Connection::open(tool.file(name, "")).expect("opens");
    for (place, rank) in ranks.iter().enumerate() {
        let environment = rank.map_or("{}".to_owned(), |rank| {
            format!(r#"{{"RANK": "{rank}", "WORLD_SIZE": "2"}}"#)
        });
        let process = DATABASE.replace("ENVIRONMENT", &environment);
        let process = process.replace('@', &format!("_0197{place}"));
        connection.execute_batch(&process).expect("SQL");
    }
}

#[test]
fn rocpd_databases_are_known_linked_and_merged() {
    let tool = Tool::new();
    for rank in [0, 1] {
        let name = format!("run/gpu1/{}_results.db", 4711 + rank);
        draw_database(&tool, &name, &[Some(rank)]);
    }
    let file = "run/gpu1/4711_results.db";
    let facts = tool
        .run(&format!("inspect {file} --json"))
        .exits(0)
        .only_file();
    assert_eq!(facts["kind"], "rocpd_sqlite");
    assert_eq!(facts["device_rows"], 4);
    assert_eq!(facts["rank"], 0);
    assert_eq!(facts["world_size"], 2);
    tool.run(&format!("link --device {file} -o one.et"))
        .exits(0)
        .says("4 launched, 4 owned by an op");
    tool.run(&format!("analyze {file}"))
        .exits(0)
        .says("Cijk_gemm");
    // The environment of each process contains its rank.
    let merged = tool.run("merge run -o out").exits(0);
    merged.says("2 linked, 0 failed");
    let written = tool.files("out");
    let graphs = written.keys().filter(|name| name.ends_with(".et"));
    assert_eq!(graphs.count(), 2, "{:?}", written.keys());
    // Compressed ones are unpacked next to them, and removed afterwards.
    let packed = gzip(&tool.read(file));
    tool.file("packed.db.gz", packed);
    tool.run("link --device packed.db.gz -o two.et")
        .exits(0)
        .says("4 launched");
}

#[test]
fn each_process_of_a_merged_rocpd_database_is_a_rank() {
    let tool = Tool::new();
    draw_database(&tool, "run/all_results.db", &[Some(1), Some(0)]);
    tool.run("link --device run/all_results.db -o one.et")
        .exits(2)
        .complains(&["all_results.db", "2 processes", "etlink merge"]);
    tool.run("link --device run/all_results.db --rank 1 -o one.et")
        .exits(0)
        .says("4 launched");
    tool.run("merge run -o out")
        .exits(0)
        .notes("2 processes with device work, each taken as a rank, by the environment")
        .says("2 linked, 0 failed");
    draw_database(&tool, "unsaid/all_results.db", &[None, None]);
    tool.run("merge unsaid -o two")
        .exits(0)
        .notes("each taken as a rank, by the order of its tables");
}

#[test]
fn ranks_that_the_environment_tells_in_part_or_twice_are_distinct() {
    let tool = Tool::new();
    // The variable came from the launcher of both.
    draw_database(&tool, "same/all_results.db", &[Some(3), Some(3)]);
    tool.run("merge same -o one --allow-mismatch")
        .exits(0)
        .notes("the order of its tables (the environment of the recorded program has one rank")
        .says("2 linked, 0 failed");
    draw_database(&tool, "part/all_results.db", &[Some(0), None, Some(2)]);
    tool.run("merge part -o two --allow-mismatch")
        .exits(0)
        .notes("if it has a rank, else by the order of its tables")
        .says("3 linked, 0 failed");
    let graphs = |folder: &str| {
        let written = tool.files(folder);
        let names = written.into_keys().filter(|name| name.ends_with(".et"));
        names.collect::<Vec<_>>()
    };
    assert_eq!(graphs("one"), ["same.0.et", "same.1.et"]);
    assert_eq!(graphs("two"), ["part.0.et", "part.1.et", "part.2.et"]);
}

#[test]
fn damaged_rocpd_databases_are_said_to_be() {
    let tool = Tool::new();
    draw_database(&tool, "one_results.db", &[None]);
    let whole = tool.read("one_results.db");
    tool.file("cut_results.db", &whole[..whole.len() / 2]);
    let cut = tool.run("inspect cut_results.db");
    assert!([0, 2].contains(&cut.code), "{}", cut.shown());
    tool.file("head_results.db", &whole[..50]);
    tool.run("link --device head_results.db -o one.et").exits(2);
    let other = Connection::open(tool.file("other_results.db", "")).expect("opens");
    other
        .execute_batch("CREATE TABLE songs (name)")
        .expect("writes");
    drop(other);
    tool.run("inspect other_results.db")
        .exits(2)
        .complains(&["other_results.db", "SQLite"]);
}
