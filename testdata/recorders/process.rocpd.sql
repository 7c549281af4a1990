-- A process of a rocpd database, as rocprofv3 writes it: two annotated steps of two kernels each. Tables end
-- in @; ENVIRONMENT stands for that of the process.
CREATE TABLE rocpd_event@ (id INTEGER PRIMARY KEY, guid TEXT, category_id INTEGER,
    stack_id INTEGER, parent_stack_id INTEGER, correlation_id INTEGER, extdata JSONB);
INSERT INTO rocpd_event@ VALUES (1,NULL,1,2,2,0,'{}');
INSERT INTO rocpd_event@ VALUES (2,NULL,1,3,3,0,'{}');
INSERT INTO rocpd_event@ VALUES (3,NULL,1,4,4,0,'{}');
INSERT INTO rocpd_event@ VALUES (4,NULL,1,5,5,0,'{}');
INSERT INTO rocpd_event@ VALUES (5,NULL,2,2,2,0,'{}');
INSERT INTO rocpd_event@ VALUES (6,NULL,2,3,3,0,'{}');
INSERT INTO rocpd_event@ VALUES (7,NULL,2,4,4,0,'{}');
INSERT INTO rocpd_event@ VALUES (8,NULL,2,5,5,0,'{}');
INSERT INTO rocpd_event@ VALUES (9,NULL,4,6,6,0,'{"message": "forward"}');
INSERT INTO rocpd_event@ VALUES (10,NULL,4,7,7,0,'{"message": "forward"}');
CREATE TABLE rocpd_info_agent@ (id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, pid INTEGER,
    type TEXT, type_index INTEGER, name TEXT, product_name TEXT, extdata JSONB);
INSERT INTO rocpd_info_agent@ VALUES (36999,NULL,1,4711,'CPU',0,'CPU','','{"size":312,"cu_count":304}');
INSERT INTO rocpd_info_agent@ VALUES (37000,NULL,1,4711,'GPU',0,'gfx942','AMD Instinct MI300X','{"size":312,"cu_count":304}');
CREATE TABLE rocpd_info_kernel_symbol@ (id INTEGER PRIMARY KEY, guid TEXT, kernel_name TEXT,
    display_name TEXT);
INSERT INTO rocpd_info_kernel_symbol@ VALUES (11,NULL,'Cijk_gemm.kd','Cijk_gemm');
INSERT INTO rocpd_info_kernel_symbol@ VALUES (13,NULL,'ncclDevKernel_Generic.kd','ncclDevKernel_Generic');
CREATE TABLE rocpd_info_node@ (id INTEGER PRIMARY KEY, guid TEXT, hostname TEXT);
INSERT INTO rocpd_info_node@ VALUES (1,NULL,'');
CREATE TABLE rocpd_info_process@ (id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, pid INTEGER,
    environment JSONB);
INSERT INTO rocpd_info_process@ VALUES (4711,NULL,1,4711,'ENVIRONMENT');
CREATE TABLE rocpd_info_thread@ (id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, pid INTEGER,
    tid INTEGER, name TEXT);
INSERT INTO rocpd_info_thread@ VALUES (0,NULL,1,4711,0,NULL);
CREATE TABLE rocpd_kernel_dispatch@ (id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, pid INTEGER,
    tid INTEGER, agent_id INTEGER, kernel_id INTEGER, dispatch_id INTEGER, queue_id INTEGER,
    stream_id INTEGER, start BIGINT, "end" BIGINT, workgroup_size_x INTEGER,
    workgroup_size_y INTEGER, workgroup_size_z INTEGER, grid_size_x INTEGER, grid_size_y INTEGER,
    grid_size_z INTEGER, event_id INTEGER);
INSERT INTO rocpd_kernel_dispatch@ VALUES (1,NULL,1,4711,0,37000,11,1,9,3,5000150000,5000190000,128,1,1,8192,2,1,1);
INSERT INTO rocpd_kernel_dispatch@ VALUES (2,NULL,1,4711,0,37000,13,2,9,3,5000250000,5000290000,128,1,1,8192,2,1,2);
INSERT INTO rocpd_kernel_dispatch@ VALUES (3,NULL,1,4711,0,37000,11,3,9,3,5001150000,5001190000,128,1,1,8192,2,1,3);
INSERT INTO rocpd_kernel_dispatch@ VALUES (4,NULL,1,4711,0,37000,13,4,9,3,5001250000,5001290000,128,1,1,8192,2,1,4);
CREATE TABLE rocpd_memory_copy@ (id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, pid INTEGER,
    tid INTEGER, start BIGINT, "end" BIGINT, name_id INTEGER, dst_agent_id INTEGER,
    src_agent_id INTEGER, size INTEGER, stream_id INTEGER, event_id INTEGER);
CREATE TABLE rocpd_region@ (id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, pid INTEGER,
    tid INTEGER, start BIGINT, "end" BIGINT, name_id INTEGER, event_id INTEGER);
INSERT INTO rocpd_region@ VALUES (1,NULL,1,4711,0,5000100000,5000105000,3,5);
INSERT INTO rocpd_region@ VALUES (2,NULL,1,4711,0,5000200000,5000205000,3,6);
INSERT INTO rocpd_region@ VALUES (3,NULL,1,4711,0,5001100000,5001105000,3,7);
INSERT INTO rocpd_region@ VALUES (4,NULL,1,4711,0,5001200000,5001205000,3,8);
INSERT INTO rocpd_region@ VALUES (5,NULL,1,4711,0,5000000000,5000400000,5,9);
INSERT INTO rocpd_region@ VALUES (6,NULL,1,4711,0,5001000000,5001400000,5,10);
CREATE TABLE rocpd_string@ (id INTEGER PRIMARY KEY, guid TEXT, string TEXT);
INSERT INTO rocpd_string@ VALUES (1,NULL,'KERNEL_DISPATCH');
INSERT INTO rocpd_string@ VALUES (2,NULL,'HIP_RUNTIME_API_EXT');
INSERT INTO rocpd_string@ VALUES (3,NULL,'cudaLaunchKernel');
INSERT INTO rocpd_string@ VALUES (4,NULL,'MARKER_CORE_RANGE_API');
INSERT INTO rocpd_string@ VALUES (5,NULL,'roctxThreadRangeA');
