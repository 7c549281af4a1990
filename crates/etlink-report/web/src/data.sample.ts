// Written by a test of the crate: INSTA_UPDATE=always cargo test -p etlink-report typescript
import type { Data, Packed } from "./data";

export const DATA = {
  "written_by": "etlink",
  "title": "a sample",
  "sentence": "2 ranks; a step takes 500.0 µs (1 step on 2 ranks, the longest of them); devices compute 34.5 % of the time, communicate without overlap 53.4 %, stand idle 12.1 %; the others waited longest for rank 1, 30.00 µs in all.",
  "cards": [
    {
      "name": "Step time",
      "value": "500.0 µs",
      "note": "1 step on 2 ranks, the longest of them"
    },
    {
      "name": "Computation",
      "value": "34.5 %",
      "note": "of device time"
    },
    {
      "name": "Communication",
      "value": "53.4 %",
      "note": "of device time, exposed: no overlap with computation"
    },
    {
      "name": "Idle",
      "value": "12.1 %",
      "note": "of device time"
    },
    {
      "name": "Overlap",
      "value": "0.0 %",
      "note": "of communication overlaps with computation"
    },
    {
      "name": "Straggler",
      "value": "rank 1",
      "note": "the others waited 30.00 µs for it, summed"
    },
    {
      "name": "Replay error",
      "value": "0.00 %",
      "note": "of the makespan, worst rank"
    },
    {
      "name": "Launches found",
      "value": "100.0 %",
      "note": "of 4 device rows"
    }
  ],
  "notes": [
    "a note"
  ],
  "ranks": [
    {
      "label": "0",
      "device_trace": "kineto_trace_0.json",
      "host_trace": null,
      "device": null,
      "rank": 0,
      "breakdown": [
        {
          "device": 0,
          "start_ns": 40000,
          "window_ns": 290000,
          "computation_ns": 100000,
          "exposed_communication_ns": 170000,
          "exposed_memory_ns": 0,
          "exposed_other_ns": 0,
          "idle_ns": 20000,
          "communication_ns": 170000,
          "memory_ns": 0,
          "overlap_ns": 0,
          "overlap_share": 0.0
        }
      ],
      "kernels": [
        {
          "class": "communication",
          "label": "nccl",
          "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
          "count": 1,
          "sum_ns": 170000,
          "mean_ns": 170000.0,
          "min_ns": 170000,
          "max_ns": 170000,
          "stddev_ns": null,
          "share": 0.6296296296296297
        }
      ],
      "idle": [
        {
          "device": 0,
          "stream": null,
          "busy_ns": 270000,
          "gaps": 1,
          "idle_ns": 20000,
          "host_late_ns": 0,
          "event_wait_ns": 0,
          "launch_ns": 0,
          "between_ns": 20000,
          "unexplained_ns": 0,
          "longest_ns": 20000
        }
      ],
      "stream_idle": [
        {
          "device": 0,
          "stream": 7,
          "busy_ns": 100000,
          "gaps": 0,
          "idle_ns": 0,
          "host_late_ns": 0,
          "event_wait_ns": 0,
          "launch_ns": 0,
          "between_ns": 0,
          "unexplained_ns": 0,
          "longest_ns": 0
        }
      ],
      "launches": [
        {
          "name": "cudaLaunchKernel",
          "graph": false,
          "calls": 1,
          "rows": 1,
          "rows_ns": 100000,
          "short_rows": 0,
          "call_ns": 6000,
          "call_mean_ns": 6000.0,
          "call_max_ns": 6000,
          "delay_mean_ns": 14000.0,
          "delay_min_ns": 14000,
          "delay_max_ns": 14000
        }
      ],
      "queues": [
        {
          "device": 0,
          "stream": 7,
          "rows": 1,
          "window_ns": 20000,
          "mean_length": 1.0,
          "max_length": 1,
          "full_ns": 0
        }
      ],
      "copies": [],
      "steps": [
        {
          "name": "ProfilerStep#1",
          "start_ns": 0,
          "duration_ns": 500000,
          "rows": 2,
          "device_start_ns": 40000,
          "device_window_ns": 290000,
          "computation_ns": 100000,
          "exposed_communication_ns": 170000,
          "exposed_memory_ns": 0,
          "exposed_other_ns": 0,
          "idle_ns": 20000,
          "communication_ns": 170000,
          "overlap_ns": 0
        }
      ],
      "coverage": [
        {
          "device": 0,
          "multiprocessors": 216,
          "rows": 2,
          "time_share": 1.0,
          "by_time": 0.5925925925925926,
          "by_row": 0.5925925925925926,
          "low_share": 0.0,
          "high_share": 0.0
        }
      ],
      "work": [],
      "collectives": [
        {
          "kind": "all_reduce",
          "group": "ranks 0, 1",
          "group_size": 2,
          "on_device": true,
          "count": 1,
          "in_bytes": 4096,
          "bytes": 4096,
          "sum_ns": 170000,
          "sized_ns": 170000,
          "algorithm_gb_per_s": 0.024094117647058825,
          "bus_gb_per_s": 0.024094117647058825,
          "latency_ns": null,
          "ns_per_byte": null
        }
      ],
      "sequences": [],
      "memory": [
        {
          "device_type": "cuda",
          "device": 0,
          "allocations": 1,
          "frees": 0,
          "allocated_sum_bytes": 1024,
          "start_bytes": 3072,
          "end_bytes": 4096,
          "peak_bytes": 4096,
          "peak_ns": 12000,
          "peak_reserved_bytes": 8192
        }
      ],
      "memory_timeline": [],
      "memory_charts": [
        {
          "device_type": "cuda",
          "device": 0,
          "points": 1,
          "time_ns": [
            12000
          ],
          "allocated_bytes": [
            4096
          ],
          "reserved_bytes": [
            8192
          ]
        }
      ],
      "link": {
        "notes": [],
        "rank": 0,
        "world_size": 2,
        "host_schema": null,
        "two_runs": false,
        "host_ops": 0,
        "cpu_ops": 4,
        "matched": {},
        "unmatched": {
          "host_outside_window": 0,
          "host_not_in_device": 0,
          "device_not_in_host": 0,
          "same_id_other_name": 0
        },
        "device_rows": 2,
        "launched": 2,
        "no_launch": {},
        "owned_by_op": 2,
        "graph_launches": 0,
        "graph_rows": 0,
        "nodes": {
          "host_op": 5,
          "runtime": 2,
          "device_op": 1,
          "collective": 1,
          "host_gap": 4,
          "boundary": 1
        },
        "edges": {
          "program_order": 11,
          "launch": 2
        },
        "window": {
          "start_ns": 0,
          "end_ns": 500000
        },
        "anomalies": [
          {
            "kind": "negative_duration",
            "severity": "damage",
            "count": 1,
            "first": "\"aten::damaged\"",
            "meaning": "negative durations, read as 0"
          }
        ]
      },
      "figures": {
        "nodes": 14,
        "edges": 13,
        "device_ops": 2,
        "streams": 2,
        "measured_ns": 500000,
        "replayed_ns": 500000,
        "replay_error": 0.0,
        "end_error": {
          "mean_ns": 0,
          "mean_share": 0.0,
          "p50_ns": 0,
          "p90_ns": 0,
          "p99_ns": 0,
          "max_ns": 0,
          "p99_share": 0.0,
          "worst": []
        },
        "unexplained": {
          "device_ops": 0,
          "share_of_ops": 0.0,
          "waiting_ns": 0,
          "share_of_time": 0.0,
          "worst": []
        },
        "contradictions": {
          "edges": 0,
          "worst": []
        },
        "by_edge": {
          "program_order": {
            "count": 11,
            "inferred": 0,
            "decided": 11,
            "latency": {
              "p50_ns": 0,
              "p90_ns": 0,
              "p99_ns": 0,
              "max_ns": 0
            }
          },
          "launch": {
            "count": 2,
            "inferred": 0,
            "decided": 2,
            "latency": {
              "p50_ns": 20000,
              "p90_ns": 40000,
              "p99_ns": 40000,
              "max_ns": 40000
            }
          }
        },
        "boundary": {
          "count": 1,
          "total_ns": 0,
          "max_ns": 0
        }
      },
      "critical_path": {
        "makespan_ns": 500000,
        "nodes": 12,
        "edges": {
          "program_order": 11
        },
        "busy": 0,
        "causes": {
          "host": {
            "ns": 75000,
            "share": 0.15
          },
          "gap": {
            "ns": 425000,
            "share": 0.85
          }
        },
        "steps": []
      }
    },
    {
      "label": "1",
      "device_trace": "kineto_trace_1.json",
      "host_trace": null,
      "device": null,
      "rank": 1,
      "breakdown": [
        {
          "device": 0,
          "start_ns": 40000,
          "window_ns": 290000,
          "computation_ns": 100000,
          "exposed_communication_ns": 140000,
          "exposed_memory_ns": 0,
          "exposed_other_ns": 0,
          "idle_ns": 50000,
          "communication_ns": 140000,
          "memory_ns": 0,
          "overlap_ns": 0,
          "overlap_share": 0.0
        }
      ],
      "kernels": [
        {
          "class": "communication",
          "label": "nccl",
          "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
          "count": 1,
          "sum_ns": 140000,
          "mean_ns": 140000.0,
          "min_ns": 140000,
          "max_ns": 140000,
          "stddev_ns": null,
          "share": 0.5833333333333334
        }
      ],
      "idle": [
        {
          "device": 0,
          "stream": null,
          "busy_ns": 240000,
          "gaps": 1,
          "idle_ns": 50000,
          "host_late_ns": 0,
          "event_wait_ns": 0,
          "launch_ns": 0,
          "between_ns": 50000,
          "unexplained_ns": 0,
          "longest_ns": 50000
        }
      ],
      "stream_idle": [
        {
          "device": 0,
          "stream": 7,
          "busy_ns": 100000,
          "gaps": 0,
          "idle_ns": 0,
          "host_late_ns": 0,
          "event_wait_ns": 0,
          "launch_ns": 0,
          "between_ns": 0,
          "unexplained_ns": 0,
          "longest_ns": 0
        }
      ],
      "launches": [
        {
          "name": "cudaLaunchKernel",
          "graph": false,
          "calls": 1,
          "rows": 1,
          "rows_ns": 100000,
          "short_rows": 0,
          "call_ns": 6000,
          "call_mean_ns": 6000.0,
          "call_max_ns": 6000,
          "delay_mean_ns": 14000.0,
          "delay_min_ns": 14000,
          "delay_max_ns": 14000
        }
      ],
      "queues": [
        {
          "device": 0,
          "stream": 7,
          "rows": 1,
          "window_ns": 20000,
          "mean_length": 1.0,
          "max_length": 1,
          "full_ns": 0
        }
      ],
      "copies": [],
      "steps": [
        {
          "name": "ProfilerStep#1",
          "start_ns": 0,
          "duration_ns": 500000,
          "rows": 2,
          "device_start_ns": 40000,
          "device_window_ns": 290000,
          "computation_ns": 100000,
          "exposed_communication_ns": 140000,
          "exposed_memory_ns": 0,
          "exposed_other_ns": 0,
          "idle_ns": 50000,
          "communication_ns": 140000,
          "overlap_ns": 0
        }
      ],
      "coverage": [
        {
          "device": 0,
          "multiprocessors": 216,
          "rows": 2,
          "time_share": 1.0,
          "by_time": 0.5925925925925926,
          "by_row": 0.5925925925925926,
          "low_share": 0.0,
          "high_share": 0.0
        }
      ],
      "work": [],
      "collectives": [
        {
          "kind": "all_reduce",
          "group": "ranks 0, 1",
          "group_size": 2,
          "on_device": true,
          "count": 1,
          "in_bytes": 4096,
          "bytes": 4096,
          "sum_ns": 140000,
          "sized_ns": 140000,
          "algorithm_gb_per_s": 0.029257142857142857,
          "bus_gb_per_s": 0.029257142857142857,
          "latency_ns": null,
          "ns_per_byte": null
        }
      ],
      "sequences": [],
      "memory": [
        {
          "device_type": "cuda",
          "device": 0,
          "allocations": 1,
          "frees": 0,
          "allocated_sum_bytes": 1024,
          "start_bytes": 3072,
          "end_bytes": 4096,
          "peak_bytes": 4096,
          "peak_ns": 12000,
          "peak_reserved_bytes": 8192
        }
      ],
      "memory_timeline": [],
      "memory_charts": [
        {
          "device_type": "cuda",
          "device": 0,
          "points": 1,
          "time_ns": [
            12000
          ],
          "allocated_bytes": [
            4096
          ],
          "reserved_bytes": [
            8192
          ]
        }
      ],
      "link": {
        "notes": [],
        "rank": 1,
        "world_size": 2,
        "host_schema": null,
        "two_runs": false,
        "host_ops": 0,
        "cpu_ops": 4,
        "matched": {},
        "unmatched": {
          "host_outside_window": 0,
          "host_not_in_device": 0,
          "device_not_in_host": 0,
          "same_id_other_name": 0
        },
        "device_rows": 2,
        "launched": 2,
        "no_launch": {},
        "owned_by_op": 2,
        "graph_launches": 0,
        "graph_rows": 0,
        "nodes": {
          "host_op": 5,
          "runtime": 2,
          "device_op": 1,
          "collective": 1,
          "host_gap": 4,
          "boundary": 1
        },
        "edges": {
          "program_order": 11,
          "launch": 2
        },
        "window": {
          "start_ns": 0,
          "end_ns": 500000
        },
        "anomalies": [
          {
            "kind": "negative_duration",
            "severity": "damage",
            "count": 1,
            "first": "\"aten::damaged\"",
            "meaning": "negative durations, read as 0"
          }
        ]
      },
      "figures": {
        "nodes": 14,
        "edges": 13,
        "device_ops": 2,
        "streams": 2,
        "measured_ns": 500000,
        "replayed_ns": 500000,
        "replay_error": 0.0,
        "end_error": {
          "mean_ns": 0,
          "mean_share": 0.0,
          "p50_ns": 0,
          "p90_ns": 0,
          "p99_ns": 0,
          "max_ns": 0,
          "p99_share": 0.0,
          "worst": []
        },
        "unexplained": {
          "device_ops": 0,
          "share_of_ops": 0.0,
          "waiting_ns": 0,
          "share_of_time": 0.0,
          "worst": []
        },
        "contradictions": {
          "edges": 0,
          "worst": []
        },
        "by_edge": {
          "program_order": {
            "count": 11,
            "inferred": 0,
            "decided": 11,
            "latency": {
              "p50_ns": 0,
              "p90_ns": 0,
              "p99_ns": 0,
              "max_ns": 0
            }
          },
          "launch": {
            "count": 2,
            "inferred": 0,
            "decided": 2,
            "latency": {
              "p50_ns": 20000,
              "p90_ns": 70000,
              "p99_ns": 70000,
              "max_ns": 70000
            }
          }
        },
        "boundary": {
          "count": 1,
          "total_ns": 0,
          "max_ns": 0
        }
      },
      "critical_path": {
        "makespan_ns": 500000,
        "nodes": 12,
        "edges": {
          "program_order": 11
        },
        "busy": 0,
        "causes": {
          "host": {
            "ns": 75000,
            "share": 0.15
          },
          "gap": {
            "ns": 425000,
            "share": 0.85
          }
        },
        "steps": []
      }
    }
  ],
  "total": {
    "breakdown": [
      {
        "device": null,
        "start_ns": 0,
        "window_ns": 580000,
        "computation_ns": 200000,
        "exposed_communication_ns": 310000,
        "exposed_memory_ns": 0,
        "exposed_other_ns": 0,
        "idle_ns": 70000,
        "communication_ns": 310000,
        "memory_ns": 0,
        "overlap_ns": 0,
        "overlap_share": 0.0
      }
    ],
    "kernels": [
      {
        "class": "communication",
        "label": "nccl",
        "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
        "count": 2,
        "sum_ns": 310000,
        "mean_ns": 155000.0,
        "min_ns": 140000,
        "max_ns": 170000,
        "stddev_ns": 21213.203435596424,
        "share": 0.6078431372549019
      }
    ],
    "idle": [
      {
        "device": null,
        "stream": null,
        "busy_ns": 510000,
        "gaps": 2,
        "idle_ns": 70000,
        "host_late_ns": 0,
        "event_wait_ns": 0,
        "launch_ns": 0,
        "between_ns": 70000,
        "unexplained_ns": 0,
        "longest_ns": 50000
      }
    ],
    "launches": [
      {
        "name": "cudaLaunchKernel",
        "graph": false,
        "calls": 2,
        "rows": 2,
        "rows_ns": 200000,
        "short_rows": 0,
        "call_ns": 12000,
        "call_mean_ns": 6000.0,
        "call_max_ns": 6000,
        "delay_mean_ns": 14000.0,
        "delay_min_ns": 14000,
        "delay_max_ns": 14000
      }
    ],
    "copies": [],
    "collectives": [
      {
        "kind": "all_reduce",
        "group": "ranks 0, 1",
        "group_size": 2,
        "on_device": true,
        "count": 2,
        "in_bytes": 8192,
        "bytes": 8192,
        "sum_ns": 310000,
        "sized_ns": 310000,
        "algorithm_gb_per_s": 0.026425806451612903,
        "bus_gb_per_s": 0.026425806451612903,
        "latency_ns": null,
        "ns_per_byte": null
      }
    ],
    "sequences": [],
    "metrics": [
      {
        "name": "avg_step_time",
        "value": 0.0005,
        "unit": "s"
      }
    ]
  },
  "cut": [
    {
      "rank": "0",
      "table": "kernels",
      "records": 1,
      "of": 2
    },
    {
      "rank": "0",
      "table": "stream_idle",
      "records": 1,
      "of": 2
    },
    {
      "rank": "0",
      "table": "launches",
      "records": 1,
      "of": 2
    },
    {
      "rank": "0",
      "table": "queues",
      "records": 1,
      "of": 2
    },
    {
      "rank": "1",
      "table": "kernels",
      "records": 1,
      "of": 2
    },
    {
      "rank": "1",
      "table": "stream_idle",
      "records": 1,
      "of": 2
    },
    {
      "rank": "1",
      "table": "launches",
      "records": 1,
      "of": 2
    },
    {
      "rank": "1",
      "table": "queues",
      "records": 1,
      "of": 2
    },
    {
      "rank": "",
      "table": "kernels",
      "records": 1,
      "of": 2
    },
    {
      "rank": "",
      "table": "launches",
      "records": 1,
      "of": 2
    },
    {
      "rank": "",
      "table": "metrics",
      "records": 1,
      "of": 25
    }
  ],
  "met": {
    "clocks": [
      {
        "rank": 0,
        "offset_ns": 0,
        "uncertainty_ns": 0,
        "support": 0,
        "contradicted": false,
        "at_ns": 1790857026000250000,
        "by_machine": false
      },
      {
        "rank": 1,
        "offset_ns": 0,
        "uncertainty_ns": 170000,
        "support": 1,
        "contradicted": false,
        "at_ns": 1790857026000250000,
        "by_machine": false
      }
    ],
    "ranks": [
      {
        "rank": 0,
        "collectives": 1,
        "last": 0,
        "caused_ns": 0,
        "alone_ns": 0,
        "waited_ns": 30000
      },
      {
        "rank": 1,
        "collectives": 1,
        "last": 1,
        "caused_ns": 30000,
        "alone_ns": 30000,
        "waited_ns": 0
      }
    ],
    "absent": false,
    "skews": [
      {
        "kind": "all_reduce",
        "ranks": "ranks 0, 1",
        "group": 1,
        "number": 1,
        "bytes": 4096,
        "start_ns": 1790857026000160000,
        "last": 1,
        "step": "ProfilerStep#1",
        "skew_ns": 30000,
        "alone_ns": 30000,
        "waited_ns": 30000,
        "transfer_ns": 140000,
        "algorithm_bandwidth": 29257142.85714286,
        "bus_bandwidth": 29257142.85714286
      }
    ],
    "count": 1,
    "late": {
      "first": [
        0
      ],
      "ns": [
        [
          0
        ],
        [
          30000
        ]
      ]
    }
  },
  "kinds": [
    "computation",
    "communication",
    "memory",
    "other",
    "op",
    "annotation",
    "call"
  ],
  "edges": [
    "program_order",
    "launch",
    "stream_order",
    "event_wait",
    "host_wait",
    "handoff",
    "tensor",
    "collective"
  ]
} satisfies Omit<Data, "timelines">;

export const TIMELINES = [
  {
    "label": "",
    "rank": null,
    "step": "ProfilerStep#1",
    "step_ns": null,
    "window_ns": 500001,
    "origin_ns": 0,
    "common_ns": 0,
    "note": "",
    "ranges": 4,
    "together_ns": 0,
    "tracks": [
      {
        "name": "rank 0",
        "group": "the clock of all",
        "stream": true,
        "ranges": 2
      },
      {
        "name": "rank 1",
        "group": "clock ± 170.0 µs",
        "stream": true,
        "ranges": 2
      }
    ],
    "strings": [
      "",
      "ProfilerStep#1",
      "all_reduce 1"
    ],
    "depth": [
      0,
      1,
      0,
      1
    ],
    "start": [
      0,
      160000,
      0,
      190000
    ],
    "duration": [
      500000,
      170000,
      500000,
      140000
    ],
    "name": [
      1,
      2,
      1,
      2
    ],
    "kind": [
      5,
      1,
      5,
      1
    ],
    "count": [
      1,
      1,
      1,
      1
    ],
    "own": [
      0,
      0,
      0,
      0
    ],
    "about": [
      0,
      0,
      0,
      0
    ],
    "owner": [
      0,
      0,
      0,
      0
    ],
    "correlation": [
      -1,
      -1,
      -1,
      -1
    ],
    "deps": {
      "to": [
        1
      ],
      "from": [
        3
      ],
      "kind": [
        7
      ],
      "at": [
        190000
      ],
      "gap": [
        0
      ],
      "flags": [
        0
      ]
    },
    "path": {
      "range": [],
      "name": [],
      "start": [],
      "duration": [],
      "delay": [],
      "cause": [],
      "delay_cause": [],
      "via": [],
      "count": []
    },
    "met": {
      "range": [
        1,
        3
      ],
      "joint": [
        0,
        0
      ]
    },
    "joints": [
      {
        "kind": "all_reduce",
        "ranks": "ranks 0, 1",
        "number": 1,
        "bytes": 4096,
        "start_ns": 160000,
        "first": 0,
        "last": 1,
        "skew_ns": 30000,
        "alone_ns": 30000
      }
    ]
  },
  {
    "label": "0",
    "rank": null,
    "step": "step 1",
    "step_ns": 900,
    "window_ns": 1000000000,
    "origin_ns": 0,
    "common_ns": null,
    "note": "",
    "ranges": 8,
    "together_ns": 0,
    "tracks": [
      {
        "name": "thread 1000 (python)",
        "group": "python 1000",
        "stream": false,
        "ranges": 6
      },
      {
        "name": "stream 7",
        "group": "device 0 (Drawn Device)",
        "stream": true,
        "ranges": 1
      },
      {
        "name": "stream 20",
        "group": "device 0 (Drawn Device)",
        "stream": true,
        "ranges": 1
      }
    ],
    "strings": [
      "",
      "ProfilerStep#1",
      "aten::mm",
      "cudaLaunchKernel",
      "nccl:all_reduce",
      "cudaLaunchKernelExC",
      "aten::damaged",
      "sm80_gemm_f16",
      "grid, block: 64 x 2 x 1, 128 x 1 x 1",
      "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
      "grid, block: 64 x 2 x 1, 128 x 1 x 1\ncollective: allreduce\nelements: 1024 in, 1024 out, Float\nprocess group: 0 default_pg\nranks: [0, 1]\nnumber in the group: 1",
      "gap",
      "wait",
      "program_order",
      "host"
    ],
    "depth": [
      0,
      1,
      2,
      1,
      2,
      1,
      0,
      0
    ],
    "start": [
      0,
      10000,
      10000,
      95000,
      5000,
      180000,
      40000,
      160000
    ],
    "duration": [
      500000,
      50000,
      6000,
      25000,
      6000,
      0,
      100000,
      170000
    ],
    "name": [
      1,
      2,
      3,
      4,
      5,
      6,
      7,
      9
    ],
    "kind": [
      5,
      4,
      6,
      4,
      6,
      4,
      0,
      1
    ],
    "count": [
      1,
      1,
      1,
      1,
      1,
      1,
      1,
      1
    ],
    "own": [
      425000,
      44000,
      0,
      19000,
      0,
      0,
      0,
      0
    ],
    "about": [
      0,
      0,
      0,
      0,
      0,
      0,
      8,
      10
    ],
    "owner": [
      0,
      0,
      2,
      0,
      4,
      0,
      2,
      4
    ],
    "correlation": [
      -1,
      -1,
      2,
      -1,
      3,
      -1,
      2,
      3
    ],
    "deps": {
      "to": [
        6,
        7
      ],
      "from": [
        2,
        4
      ],
      "kind": [
        1,
        1
      ],
      "at": [
        40000,
        160000
      ],
      "gap": [
        20000,
        40000
      ],
      "flags": [
        1,
        1
      ]
    },
    "path": {
      "range": [
        -1,
        1,
        2,
        1,
        -1,
        3,
        4,
        3,
        -1,
        5,
        -1
      ],
      "name": [
        1,
        2,
        3,
        2,
        1,
        4,
        5,
        4,
        1,
        6,
        1
      ],
      "start": [
        0,
        10000,
        20000,
        26000,
        60000,
        115000,
        120000,
        126000,
        140000,
        300000,
        300000
      ],
      "duration": [
        10000,
        10000,
        6000,
        34000,
        55000,
        5000,
        6000,
        14000,
        160000,
        0,
        200000
      ],
      "delay": [
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0
      ],
      "cause": [
        11,
        14,
        14,
        14,
        11,
        14,
        14,
        14,
        11,
        14,
        11
      ],
      "delay_cause": [
        12,
        12,
        12,
        12,
        12,
        12,
        12,
        12,
        12,
        12,
        12
      ],
      "via": [
        13,
        13,
        13,
        13,
        13,
        13,
        13,
        13,
        13,
        13,
        13
      ],
      "count": [
        1,
        1,
        1,
        1,
        1,
        1,
        1,
        1,
        1,
        1,
        1
      ]
    },
    "met": {
      "range": [],
      "joint": []
    },
    "joints": null
  }
] satisfies Packed[];
