// Reads a trace with Perfetto's own trace_processor and prints what it found as JSON.
//
//     node perfetto.mjs ENGINE TRACE
//
// ENGINE is a folder of Perfetto's UI with engine_bundle.js and trace_processor.wasm. The bundle is a web
// worker, so it gets the few things of a worker that it asks for. Requests and replies are Perfetto's
// TraceProcessorRpcStream (protos/perfetto/trace_processor/trace_processor.proto).

import fs from 'node:fs';
import path from 'node:path';

const [engine, trace] = process.argv.slice(2);
const BLOCK = 1 << 24;
const REQUEST = {append: 1, finalize: 2, query: 3};
const FIELD = {message: 1, seq: 1, request: 2, fatal: 5, append: 101, query: 103, appended: 201, result: 203};

function worker() {
  class XMLHttpRequest {
    open(_method, url) {
      this.file = path.join(engine, path.basename(new URL(url, 'http://localhost/').pathname));
    }
    send() {
      const bytes = fs.readFileSync(this.file);
      this.response = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
    }
  }
  const location = {href: 'http://localhost/engine_bundle.js'};
  const self = {location};
  const quiet = {log() {}, warn() {}, error: console.error};
  const given = {self, location, XMLHttpRequest, WorkerGlobalScope: class {}, console: quiet};
  const hidden = ['process', 'window', 'document'];
  const code = fs.readFileSync(path.join(engine, 'engine_bundle.js'), 'utf8');
  new Function(...Object.keys(given), ...hidden, code)(...Object.values(given));
  return self;
}

function varint(number) {
  const bytes = [];
  for (let rest = BigInt(number); ; ) {
    const low = Number(rest & 127n);
    rest >>= 7n;
    bytes.push(rest ? low | 128 : low);
    if (!rest) return Buffer.from(bytes);
  }
}

const whole = (field, number) => Buffer.concat([varint(field * 8), varint(number)]);
const nested = (field, bytes) => Buffer.concat([varint(field * 8 + 2), varint(bytes.length), bytes]);

/** All varints of a packed field, as signed 64 bit. */
function* packed(bytes) {
  let [value, shift] = [0n, 0n];
  for (const byte of bytes) {
    value |= BigInt(byte & 127) << shift;
    shift += 7n;
    if (byte < 128) {
      yield BigInt.asIntN(64, value);
      [value, shift] = [0n, 0n];
    }
  }
}

/** Fields of a message as [number, value]; nested ones as bytes. */
function* fields(bytes) {
  let at = 0;
  const next = () => {
    const begin = at;
    while (bytes[at++] > 127);
    return Number([...packed(bytes.subarray(begin, at))][0]);
  };
  const take = (length) => bytes.subarray(at, (at += length));
  while (at < bytes.length) {
    const key = next();
    const kind = key & 7;
    yield [key >> 3, kind === 0 ? next() : take(kind === 2 ? next() : kind === 1 ? 8 : 4)];
  }
}

class TraceProcessor {
  seq = 0;
  replies = [];

  constructor(port) {
    this.port = port;
    port.postMessage = (bytes) => this.replies.push(Buffer.from(bytes));
  }

  /** Values of one kind of reply. */
  *ask(request, body, wanted) {
    this.replies = [];
    const message = Buffer.concat([whole(FIELD.seq, this.seq++), whole(FIELD.request, request), body]);
    this.port.onmessage({data: new Uint8Array(nested(FIELD.message, message))});
    for (const [, reply] of fields(Buffer.concat(this.replies))) {
      for (const [field, value] of fields(reply)) {
        if (field === FIELD.fatal) throw new Error(String(value));
        if (field === wanted) yield value;
      }
    }
  }

  load(file) {
    const input = fs.openSync(file);
    const block = Buffer.alloc(BLOCK);
    for (let length; (length = fs.readSync(input, block)) > 0; ) {
      for (const done of this.ask(REQUEST.append, nested(FIELD.append, block.subarray(0, length)), FIELD.appended)) {
        for (const [field, error] of fields(done)) if (field === 2) throw new Error(String(error));
      }
    }
    [...this.ask(REQUEST.finalize, Buffer.alloc(0), 0)];
  }

  query(sql) {
    let columns = 0;
    const cells = [];
    for (const result of this.ask(REQUEST.query, nested(FIELD.query, nested(1, Buffer.from(sql))), FIELD.result)) {
      for (const [field, value] of fields(result)) {
        if (field === 1) columns += 1;
        if (field === 2) throw new Error(`${value} in ${sql}`);
        if (field === 3) for (const cell of batch(value)) cells.push(cell);
      }
    }
    const rows = [];
    for (let at = 0; at < cells.length; at += columns) rows.push(cells.slice(at, at + columns));
    return rows;
  }
}

/** The cells of a batch: null, integer or text. */
function* batch(bytes) {
  const parts = {1: [], 2: [], 5: []};
  for (const [field, value] of fields(bytes)) (parts[field] ??= []).push(value);
  const integers = packed(Buffer.concat(parts[2]));
  const texts = String(Buffer.concat(parts[5])).split('\0').values();
  for (const kind of packed(Buffer.concat(parts[1]))) {
    if (kind === 1n) yield null;
    else if (kind === 2n) yield Number(integers.next().value);
    else if (kind === 4n) yield texts.next().value;
    else throw new Error(`cell of kind ${kind}`);
  }
}

// Chrome's JSON has processes and threads; of several ranks a rank is a process, whose threads say of which process or
// device they are. In Perfetto's own format a thread is a track below its process's, and that
// below its rank's, or `trace`. A rank's number has blanks before it.
const PLACES = `places as (
  select thread_track.id as track_id,
      iif(process.name glob 'rank [0-9]*', process.name || ' · ' || substr(thread.name, 1, instr(thread.name, ' · ') - 1),
        process.name) as process,
      iif(process.name glob 'rank [0-9]*', substr(thread.name, instr(thread.name, ' · ') + 3), thread.name) as thread,
      thread.tid, process.pid
    from thread_track join thread using (utid) join process using (upid)
  union all
  select t.id, iif(r.name = 'trace', p.name, 'rank ' || trim(substr(r.name, 5)) || ' · ' || p.name), t.name, t.id, p.id
    from track t join track p on t.parent_id = p.id join track r on p.parent_id = r.id where r.parent_id is null)`;
const SLICES = `with ${PLACES} select process, thread, tid, pid, slice.name, slice.ts, slice.dur, slice.category
  from slice join places using (track_id)`;
const ENDS = `with ${PLACES}, ends as (select slice.id, process, slice.name, slice.ts, slice.dur from slice
  join places using (track_id))`;
const FLOWS = `${ENDS} select extract_arg(flow.arg_set_id, 'name'), extract_arg(flow.arg_set_id, 'cat'),
  a.process, a.name, a.ts, a.dur, b.process, b.name, b.ts, b.dur from flow join ends a on flow.slice_out = a.id join ends b on flow.slice_in = b.id`;
const STATS = `select name, value from stats where value > 0 and severity in ('error', 'data_loss')`;

const self = worker();
// the engine starts asynchronously
await new Promise((started) => setTimeout(started, 0));
const port = {};
self.onmessage({data: port});
const processor = new TraceProcessor(port);
processor.load(trace);
const flows = processor.query(FLOWS).map(([name, category, ...ends]) => [name, category, ends.slice(0, 4), ends.slice(4)]);
const found = {stats: processor.query(STATS), slices: processor.query(SLICES), flows};
found.all_slices = processor.query('select count() from slice')[0][0];
found.all_flows = processor.query('select count() from flow')[0][0];
const CAUSE = `coalesce(extract_arg(arg_set_id, 'args.cause'), extract_arg(arg_set_id, 'debug.cause'))`;
found.critical_path_args = processor.query(`select count() from slice where category = 'step' and ${CAUSE} is not null`)[0][0];
found.unix_ns = processor.query(`select cast(clock_value as text) from clock_snapshot where clock_name = 'REALTIME' and ts = 0`)[0]?.[0] ?? null;
process.stdout.write(JSON.stringify(found));
