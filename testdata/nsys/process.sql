-- One process of an export of Nsight Systems, schema 3.13: an op that launches two kernels, then waits
-- for its device. PID stands for the id of the process; several make a report of several ranks.
CREATE TABLE IF NOT EXISTS META_DATA_EXPORT (name TEXT, value TEXT);
CREATE TABLE IF NOT EXISTS StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS ThreadNames (nameId INTEGER, priority INTEGER, globalTid INTEGER);
CREATE TABLE IF NOT EXISTS PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT);
CREATE TABLE IF NOT EXISTS TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT, localTime TEXT);
CREATE TABLE IF NOT EXISTS TARGET_INFO_SYSTEM_ENV (globalVid INTEGER, name TEXT, value TEXT);
CREATE TABLE IF NOT EXISTS TARGET_INFO_GPU (id INTEGER, name TEXT, smCount INTEGER, cuDevice INTEGER);
CREATE TABLE IF NOT EXISTS TARGET_INFO_CUDA_STREAM (streamId INTEGER, hwId INTEGER, vmId INTEGER,
  processId INTEGER, contextId INTEGER, priority INTEGER, flag INTEGER);
CREATE TABLE IF NOT EXISTS CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, eventClass INTEGER,
  globalTid INTEGER, correlationId INTEGER, nameId INTEGER, returnValue INTEGER, callchainId INTEGER);
CREATE TABLE IF NOT EXISTS CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER,
  contextId INTEGER, greenContextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER,
  demangledName INTEGER, shortName INTEGER, mangledName INTEGER, launchType INTEGER, gridX INTEGER,
  gridY INTEGER, gridZ INTEGER, blockX INTEGER, blockY INTEGER, blockZ INTEGER, graphNodeId INTEGER);
CREATE TABLE IF NOT EXISTS CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start INTEGER, end INTEGER,
  deviceId INTEGER, contextId INTEGER, greenContextId INTEGER, streamId INTEGER, correlationId INTEGER,
  globalPid INTEGER, syncType INTEGER, eventId INTEGER, eventSyncId INTEGER);
CREATE TABLE IF NOT EXISTS NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT,
  globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER, jsonTextId INTEGER,
  jsonText TEXT);

INSERT INTO META_DATA_EXPORT SELECT 'EXPORT_SCHEMA_VERSION', '3.13.2'
  WHERE NOT EXISTS (SELECT 1 FROM META_DATA_EXPORT);
INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1790857026000000000, '', '');
INSERT INTO TARGET_INFO_GPU VALUES (0, 'Drawn Device', 216, 0);
INSERT OR IGNORE INTO StringIds VALUES (0, 'cudaLaunchKernel_v3020'),
  (1, 'cudaDeviceSynchronize_v3020'), (2, 'gemm'), (3, 'relu'), (4, 'python');

-- The id of a process is (1 << 48) | (pid << 24), that of a thread has its number in the low bits.
INSERT INTO PROCESSES VALUES ((1 << 48) | (PID << 24), PID, 'python');
INSERT INTO ThreadNames VALUES (4, 0, (1 << 48) | (PID << 24) | PID);
INSERT INTO TARGET_INFO_CUDA_STREAM VALUES (7, 0, 1, PID, 1, 0, 1);
INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid, domainId) VALUES
  (0, 30000, 59, 'aten::mm, seq = 4, op_id = 9, sizes = [[2, 3], [3, 4]]', (1 << 48) | (PID << 24) | PID, 0);
INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES
  (1000, 2000, 0, (1 << 48) | (PID << 24) | PID, 2, 0, 0, NULL),
  (3000, 4000, 0, (1 << 48) | (PID << 24) | PID, 3, 0, 0, NULL),
  (5000, 26000, 0, (1 << 48) | (PID << 24) | PID, 4, 1, 0, NULL);
INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES
  (3000, 20000, 0, 1, NULL, 7, 2, (1 << 48) | (PID << 24), 2, 2, 2, 1, 64, 2, 1, 128, 1, 1, NULL),
  (21000, 25000, 0, 1, NULL, 7, 3, (1 << 48) | (PID << 24), 3, 3, 3, 1, 64, 2, 1, 128, 1, 1, NULL);
INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES
  (5100, 25900, 0, 1, NULL, 0xffffffff, 4, (1 << 48) | (PID << 24), 4, 0xffffffff, NULL);
