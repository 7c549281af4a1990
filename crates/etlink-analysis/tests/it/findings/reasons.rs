//! Checks sentences that give reasons: the work that a copy is queued behind, the work that is slow
//! the first time.

use crate::findings::draw::draw_rank;
use crate::findings::faults::{op, work};
use crate::findings::planted::{find, link_drawn};
use crate::findings::program::{Act, COMPUTE, MS, Meeting, NCCL, QUEUE_DEPTH, US, run_program};
use etlink_analysis::findings::{CauseKind, RunFinding, RunFindings, rank_causes};
use etlink_analysis::{KernelRules, Options, analyze};
use etlink_testing::DeviceQueue;

fn findings_of(acts: Vec<Act>) -> RunFindings {
    find(&run_program(&[acts], QUEUE_DEPTH), false)
}

/// Returns the kinds of faults, without the remark in each of these programs that a kernel takes a
/// fifth of all kernel time.
fn kinds(found: &RunFindings) -> Vec<CauseKind> {
    let kinds = found.findings.iter().map(|one| one.kind);
    kinds
        .filter(|kind| *kind != CauseKind::DominantKernel)
        .collect()
}

fn step(number: u32, acts: Vec<Act>) -> Act {
    Act::Annotation(format!("ProfilerStep#{number}"), acts)
}

/// Makes ops with kernels of 300 us in all, none of them dominant.
fn compute() -> Act {
    let kernels = [
        "ampere_bf16_s16816gemm_128x64_tn",
        "flash_fwd_kernel",
        "layer_norm_kernel",
    ];
    let acts = kernels.map(|name| {
        let launch = Act::Launch(work(name, COMPUTE, 100 * US));
        vec![Act::Host(10 * US), launch]
    });
    op("aten::linear", acts.concat())
}

/// Makes a copy of a microsecond that the host waits for.
fn pageable_copy() -> Act {
    let copy = work("Memcpy HtoD (Pageable -> Device)", COMPUTE, US);
    op(
        "aten::copy_",
        vec![Act::Host(5 * US), Act::Copy(copy, true)],
    )
}

fn exchange() -> Vec<Act> {
    let meeting = Meeting::new("AllGather", 4 * MS);
    vec![Act::Meet(meeting), Act::Fence(NCCL, COMPUTE)]
}

#[test]
fn a_copy_behind_a_collective_waits_for_the_collective() {
    let parts = [
        vec![compute()],
        exchange(),
        vec![pageable_copy()],
        vec![compute(); 20],
    ];
    let found = findings_of((1..4).map(|number| step(number, parts.concat())).collect());
    assert_eq!(kinds(&found)[0], CauseKind::ExposedCommunication);
    assert!(
        !kinds(&found).contains(&CauseKind::PageableCopy),
        "{found:#?}"
    );
    let sentence = found.findings[0].text();
    assert!(
        sentence.contains("in `aten::copy_` for 4.27 ms"),
        "{sentence}"
    );
}

#[test]
fn a_copy_behind_computation_says_how_long_it_takes_itself() {
    let kernel = Act::Launch(work("long_kernel", COMPUTE, 2 * MS));
    let acts = [vec![kernel, pageable_copy(), Act::Host(2 * MS)]];
    let found = findings_of((1..4).map(|number| step(number, acts.concat())).collect());
    let copies = found
        .findings
        .iter()
        .find(|one| one.kind == CauseKind::PageableCopy);
    let sentence = copies.expect("copies").text();
    assert!(sentence.contains("the copies take 3.00 us"), "{sentence}");
}

#[test]
fn a_number_that_is_behind_a_collective_says_so() {
    let read = work("Memcpy DtoH (Device -> Pageable)", COMPUTE, US);
    let wait = Act::Sync("cudaStreamSynchronize", Some(COMPUTE));
    let item = op("aten::item", vec![Act::Copy(read, false), wait]);
    let parts = [vec![compute()], exchange(), vec![item, Act::Host(MS)]];
    let found = findings_of((1..4).map(|number| step(number, parts.concat())).collect());
    let reads = found
        .findings
        .iter()
        .find(|one| one.kind == CauseKind::ScalarRead);
    let sentence = reads.expect("reads").text();
    assert!(sentence.contains("mostly for all_gather"), "{sentence}");
}

/// Returns the findings for kernels of 40 ms and then an op of `host_ns`, three times with
/// different lengths.
fn op_beside_kernels(host_ns: i64) -> RunFindings {
    let steps = (1..4).map(|number| {
        let kernel = Act::Launch(work("long_kernel", COMPUTE, (30 + number as i64) * MS));
        let optimizer = op(
            "aten::_foreach_mul_",
            vec![Act::Host(host_ns + number as i64 * MS)],
        );
        step(
            number,
            vec![kernel, optimizer, compute(), Act::Host(9 * MS)],
        )
    });
    findings_of(steps.collect())
}

#[test]
fn an_op_that_ends_with_the_stream_probably_waits_for_it() {
    let found = op_beside_kernels(30 * MS + 300 * US);
    let mut found = found.findings.iter();
    let wait = found.rfind(|one| one.kind == CauseKind::UnrecordedSync);
    let sentence = wait.expect("a wait").text();
    assert!(
        sentence.contains("probably the host waits 96.9 ms in `aten::_foreach_mul_`"),
        "{sentence}"
    );
    // The same op is work if it ends long before the stream or long after it.
    for host_ns in [15 * MS, 50 * MS] {
        let found = op_beside_kernels(host_ns);
        assert!(
            !kinds(&found).contains(&CauseKind::UnrecordedSync),
            "{found:#?}"
        );
    }
}

/// Makes a context, memory and a library, then the same ops again and again.
fn start_up() -> Vec<Act> {
    let context = Act::Call("cudaDeviceGetStreamPriorityRange", 300 * MS);
    let memory = || Act::Call("cudaMalloc", 20 * MS);
    let library = op(
        "aten::conv2d",
        vec![Act::Call("cudaFree", 90 * MS), compute()],
    );
    let convolution = op("aten::conv2d", vec![Act::Host(20 * US), compute()]);
    let copy = op("aten::to", vec![context, memory(), compute()]);
    let mut acts = vec![copy, memory(), library];
    acts.extend(vec![convolution; 8]);
    acts.extend(vec![op("aten::to", vec![compute()]); 3]);
    acts
}

#[test]
fn what_a_process_does_first_is_its_start() {
    let found = findings_of(start_up());
    assert_eq!(kinds(&found), [CauseKind::FirstCall], "{found:#?}");
    let finding = &found.findings[0];
    let sentence = finding.text();
    let first = "probably the first call of `aten::to` takes 320 ms, mostly in \
                 `cudaDeviceGetStreamPriorityRange`";
    assert!(sentence.contains(first), "{sentence}");
    assert!((finding.gain_ns - 430 * MS).abs() < 5 * MS, "{sentence}");
}

/// Autotuning and libraries take several calls: the second and third are not work of the loop.
#[test]
fn early_calls_that_start_up_are_no_work_of_the_host() {
    let call = |ns: i64| op("aten::bmm", vec![Act::Host(ns), compute()]);
    let mut acts: Vec<Act> = [20, 30, 10].map(|ms| call(ms * MS)).into();
    acts.extend((0..8).map(|_| call(10 * US)));
    let found = findings_of(acts);
    assert_eq!(kinds(&found), [CauseKind::FirstCall], "{found:#?}");
    let finding = &found.findings[0];
    assert!((finding.gain_ns - 60 * MS).abs() < MS, "{}", finding.text());
    let sentence = finding.text();
    for part in [
        "the second call of `aten::bmm` takes 30.0 ms",
        " (median of later calls: ",
        "; 3 start-up and allocator calls take 60.0 ms more than the median of later calls",
    ] {
        assert!(sentence.contains(part), "{sentence}");
    }
    // a call of usual duration ends the start: a long one after it is work
    let mut acts: Vec<Act> = [20 * MS, 10 * US, 30 * MS].map(call).into();
    acts.extend((0..8).map(|_| call(10 * US)));
    let found = findings_of(acts);
    assert!(kinds(&found).contains(&CauseKind::HostWork), "{found:#?}");
}

#[test]
fn memory_of_the_first_step_gets_no_advice() {
    let memory = || op("aten::empty", vec![Act::Call("cudaMalloc", 5 * MS)]);
    let once = |is_first: bool| {
        let mut acts = vec![compute(); 10];
        acts.extend(is_first.then(memory));
        acts
    };
    let steps = (0..4).map(|number| step(number, once(number == 0)));
    let first_alone = findings_of(steps.collect());
    assert_eq!(kinds(&first_alone), [CauseKind::FirstCall]);
    let steps = (0..4).map(|number| step(number, once(true)));
    assert_eq!(
        kinds(&findings_of(steps.collect())),
        [CauseKind::AllocatorCalls]
    );
}

#[test]
fn a_thread_that_only_marks_the_step_is_what_it_takes() {
    let mut ran = run_program(&[vec![compute(); 3]], QUEUE_DEPTH).remove(0);
    ran.marked_elsewhere = Some(("ProfilerStep#1".to_owned(), (0, 900 * MS)));
    let found = find(&[ran], false);
    assert_eq!(kinds(&found), [CauseKind::HostWork], "{found:#?}");
    assert!(found.findings[0].gain_share > 0.9);
}

#[test]
fn communication_that_gains_nothing_is_named_with_its_reason() {
    // Each rank is late in turn, so that all time in collectives is waiting.
    let program = |rank: usize| {
        let turn = |number: usize| {
            let late = if number % 4 == rank { 6 * MS } else { 100 * US };
            let meeting = Meeting::new("AllReduce", 10 * US);
            let acts = vec![
                Act::Launch(work("gemm", COMPUTE, late)),
                Act::Meet(meeting),
                Act::Fence(NCCL, COMPUTE),
            ];
            step(number as u32, acts)
        };
        (1..9).map(turn).collect::<Vec<_>>()
    };
    let programs: Vec<Vec<Act>> = (0..4).map(program).collect();
    let found = find(&run_program(&programs, QUEUE_DEPTH), false);
    let communication = found.communication.expect("much of it");
    assert!(
        communication.sentence.contains("waiting for late ranks"),
        "{}",
        communication.sentence
    );
    assert!(communication.gain_share < 0.02);
}

/// Covers a single step with a number, before which the profiler has skipped others.
#[test]
fn memory_of_a_first_call_is_part_of_it() {
    let first = op(
        "aten::conv2d",
        vec![Act::Call("cudaFree", 14 * MS), compute()],
    );
    let mut acts = vec![first];
    acts.extend(vec![op("aten::conv2d", vec![compute()]); 5]);
    let found = findings_of(vec![step(4, acts)]);
    assert_eq!(kinds(&found)[0], CauseKind::FirstCall, "{found:#?}");
    assert!(
        !kinds(&found).contains(&CauseKind::AllocatorCalls),
        "{found:#?}"
    );
}

#[test]
fn a_thread_without_work_is_none_of_the_host() {
    let steps = (1..4).map(|number| step(number, vec![compute(); 10]));
    let ran = run_program(&[steps.collect()], QUEUE_DEPTH);
    let mut draw = draw_rank(&ran[0], 0, 1, false);
    // A pool's thread launches at the start and at the end, and waits for work most of the time.
    let pool = draw.thread();
    let last = ran[0].makespan().1;
    for at in [US, last - 20 * US] {
        let queue = DeviceQueue::stream(30);
        let (call, row) = ((at + 2 * US, at + 4 * US), (at + 9 * US, at + 12 * US));
        draw.op(pool, "collate", at, at + 10 * US);
        draw.launch(pool, call, queue, "copy", row);
    }
    let trace = link_drawn(&draw, 0);
    let rules = KernelRules::built_in().expect("rules");
    let analysis = analyze(&trace, &rules, &Options::default());
    let causes = rank_causes(&trace, &rules, &analysis);
    let work = causes.candidates.iter();
    let mut work = work.filter(|one| one.kind == CauseKind::HostWork);
    assert_eq!(work.next(), None, "nobody waits for the pool");
}

/// A program with CUDA only must get no advice for PyTorch.
#[test]
fn programs_without_pytorch_get_no_advice_for_pytorch() {
    let kernel = || Act::Launch(work("stencil_kernel", COMPUTE, 2 * US));
    let copy = || Act::Copy(work("Memcpy DtoH (Device -> Pageable)", COMPUTE, MS), true);
    let program = |op_name: Option<&str>| {
        let mut acts = vec![];
        for _ in 0..40 {
            let mut part = vec![Act::Host(300 * US)];
            part.extend((0..30).flat_map(|_| [kernel(), Act::Host(20 * US)]));
            part.extend([copy(), Act::Host(1_500 * US)]);
            part.extend([kernel(), Act::Sync("cudaDeviceSynchronize", None)]);
            part.push(Act::Call("cudaMalloc", MS));
            match op_name {
                Some(name) => acts.push(op(name, part)),
                None => acts.extend(part),
            }
        }
        // The first range of a program begins its recording.
        vec![Act::Annotation("solve".to_owned(), acts)]
    };
    let words = [
        "torch",
        "PYTORCH",
        "non_blocking",
        "DataLoader",
        "with_stack",
        "schedule(",
    ];
    let found = findings_of(program(None));
    assert!(found.findings.len() > 2, "{found:#?}");
    for finding in &found.findings {
        let odd = words.iter().find(|word| finding.text().contains(**word));
        assert_eq!(odd, None, "{}", finding.text());
    }
    let remedies = |found: &RunFindings| -> String {
        found
            .findings
            .iter()
            .map(|one| format!("{}\n", one.remedy))
            .collect()
    };
    assert!(
        remedies(&found).contains("`cudaMemcpyAsync`"),
        "{}",
        remedies(&found)
    );
    let of_torch = findings_of(program(Some("aten::copy_")));
    assert!(
        remedies(&of_torch).contains("non_blocking"),
        "{}",
        remedies(&of_torch)
    );
}

/// A blocking copy to the device ends with the copy: the thread moves the memory, and waits for no
/// row.
#[test]
fn copies_that_the_thread_does_itself_count_with_those_that_it_waits_for() {
    let to_device = Act::CopyInCall(work("Memcpy HtoD (Pageable -> Device)", COMPUTE, 5 * MS));
    let back = Act::Copy(
        work("Memcpy DtoH (Device -> Pageable)", COMPUTE, 5 * MS),
        true,
    );
    let kernel = Act::Launch(work("saxpy", COMPUTE, MS));
    let acts = vec![
        to_device.clone(),
        to_device,
        kernel,
        back,
        Act::Host(10 * MS),
    ];
    let program = Act::Annotation(
        "solve".to_owned(),
        [Act::Host(20 * MS)]
            .into_iter()
            .chain(vec![acts; 5].concat())
            .collect(),
    );
    let found = findings_of(vec![program]);
    // three copies of 5 ms in five rounds of 26 ms, after 20 ms on the host
    let copies = &found.findings[0];
    assert_eq!(copies.kind, CauseKind::ExposedCopies, "{found:#?}");
    assert_eq!(copies.figures.count, 15, "{}", copies.text());
    assert!(
        (copies.gain_ns - 75 * MS).abs() < 6 * MS,
        "{}",
        copies.text()
    );
    // Pinned memory gains less than to copy nothing.
    let waits = found.findings.iter();
    let mut waits = waits.filter(|one| one.kind == CauseKind::PageableCopy);
    let pinned = waits.next().expect("waits for copies");
    assert!(pinned.gain_ns < copies.gain_ns, "{}", pinned.text());
    // time shown by calls is not work without an op
    let work = found
        .findings
        .iter()
        .find(|one| one.kind == CauseKind::HostWork);
    let work_ns = work.expect("work of the host").figures.time_ns;
    assert!((work_ns - 70 * MS).abs() < MS, "{found:#?}");
}

#[test]
fn work_before_the_first_launch_is_not_between_launches() {
    let init = op("MPI_Init", vec![Act::Host(300 * MS)]);
    let kernel = || Act::Launch(work("gemm", COMPUTE, 10 * MS));
    let between = op("MPI_Recv", vec![Act::Host(300 * MS)]);
    let found = findings_of(vec![init, kernel(), between, kernel()]);
    let sentences: Vec<String> = found.findings.iter().map(RunFinding::text).collect();
    let of = |name: &str| {
        let mut all = sentences.iter();
        all.find(|one| one.contains(name)).expect("told")
    };
    assert!(
        of("MPI_Init").contains("300 ms before the first launch"),
        "{sentences:#?}"
    );
    assert!(
        of("MPI_Recv").contains("300 ms between launches"),
        "{sentences:#?}"
    );
}

#[test]
fn memory_that_is_got_first_says_how_long_it_takes_and_compares_it_with_nothing() {
    let get = |ns: i64| Act::Call("cudaMalloc", ns);
    let mut acts = vec![get(200 * MS), get(MS), get(MS)];
    acts.extend(vec![compute(); 10]);
    let found = findings_of(vec![Act::Annotation("solve".to_owned(), acts)]);
    let sentence = found.findings[0].text();
    assert!(
        sentence.contains("3 start-up and allocator calls take 202 ms in total"),
        "{sentence}"
    );
}

/// Makes steps that fetch a batch from a loader, and launch many short kernels slowly.
fn steps_with_loader(iterator: &str, fetches_us: [i64; 4]) -> RunFindings {
    let steps = (0..).zip(fetches_us).map(|(number, fetch_us)| {
        let name = format!("enumerate(DataLoader)#_{iterator}DataLoaderIter.__next__");
        let mut acts = vec![Act::Annotation(name, vec![Act::Host(fetch_us * US)])];
        for _ in 0..30 {
            let kernel = Act::Launch(work("short_kernel", COMPUTE, 4 * US));
            acts.push(op("aten::add", vec![Act::Host(90 * US), kernel]));
        }
        step(number, acts)
    });
    findings_of(steps.collect())
}

#[test]
fn a_loader_in_other_processes_that_the_host_waits_for_sets_the_pace() {
    let late = [1_800, 600, 600, 700];
    let found = steps_with_loader("MultiProcessing", late);
    let first = &found.findings[0];
    assert_eq!(first.kind, CauseKind::InputPipeline);
    let launches = found.findings.iter();
    let mut launches = launches.filter(|one| one.kind == CauseKind::SmallKernels);
    let launches = launches.next().expect("launch-bound");
    assert!(launches.gain_ns > first.gain_ns, "{launches:?}");
    assert!(launches.figures.loader_sets_pace && launches.evidence.contains("a faster loader"));
    // A wait for the loader is no warm-up.
    assert!(
        !kinds(&found).contains(&CauseKind::FirstStep),
        "{:?}",
        kinds(&found)
    );
    // The host itself loads, or batches are ready when it asks.
    for (iterator, fetches_us) in [("SingleProcess", late), ("MultiProcessing", [600; 4])] {
        let found = steps_with_loader(iterator, fetches_us);
        assert_eq!(
            found.findings[0].kind,
            CauseKind::SmallKernels,
            "{iterator}"
        );
        let paced = found
            .findings
            .iter()
            .filter(|one| one.figures.loader_sets_pace);
        assert_eq!(paced.count(), 0, "{iterator}");
    }
}

#[test]
fn one_cause_in_several_ops_is_one_finding() {
    let names = [
        "aten::max",
        "aten::topk",
        "aten::sort",
        "my::op",
        "## Call CompiledFxGraph f3 ##",
    ];
    let steps = (0..3).map(|number| {
        let mut acts = vec![];
        for name in names {
            acts.push(op(name, vec![Act::Host(MS)]));
            acts.push(compute());
        }
        step(number, acts)
    });
    let found = findings_of(steps.collect());
    let host = found
        .findings
        .iter()
        .filter(|one| one.kind == CauseKind::HostWork);
    let host: Vec<&RunFinding> = host.collect();
    assert_eq!(host.len(), 1, "{:?}", found.texts());
    assert_eq!(host[0].figures.other_subjects, 4, "{:?}", host[0].evidence);
    // Slow launches of as many ops are launch-bound, and no work of the host.
    let steps = (0..3).map(|number| {
        let slow = names.map(|name| {
            let launch = Act::Launch(work("short_kernel", COMPUTE, 4 * US));
            op(name, vec![Act::Host(90 * US), launch])
        });
        step(number, slow.iter().cycle().take(40).cloned().collect())
    });
    assert_eq!(
        kinds(&findings_of(steps.collect())),
        [CauseKind::SmallKernels]
    );
}
