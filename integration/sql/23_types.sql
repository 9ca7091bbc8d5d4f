-- One table per remaining column type: rows, filter, group, join, order.

-- @table ty_bin partition_by=bucket(3, id)
CREATE TABLE ty_bin AS SELECT column1 AS id, arrow_cast(column2, 'Binary') AS b FROM (VALUES (1, 'abc'), (2, ''), (3, NULL), (4, 'abd'), (5, 'abc'));

-- @table ty_time partition_by=bucket(3, id)
CREATE TABLE ty_time AS SELECT column1 AS id, CAST(column2 AS TIME) AS t FROM (VALUES (1, '00:00:00'), (2, '23:59:59.999'), (3, NULL), (4, '12:30:00'), (5, '12:30:00'));

-- @table ty_large partition_by=bucket(3, id)
CREATE TABLE ty_large AS SELECT column1 AS id, arrow_cast(column2, 'LargeUtf8') AS s FROM (VALUES (1, 'abc'), (2, ''), (3, NULL), (4, 'a large string that is not inlined in a view'), (5, 'abc'));

-- @table ty_u64 partition_by=bucket(3, id)
CREATE TABLE ty_u64 AS SELECT column1 AS id, arrow_cast(column2, 'UInt64') AS u FROM (VALUES (1, '18446744073709551615'), (2, '0'), (3, NULL), (4, '9223372036854775808'), (5, '0'));

-- @table ty_f32 partition_by=bucket(3, id)
CREATE TABLE ty_f32 AS SELECT column1 AS id, arrow_cast(column2, 'Float32') AS f FROM (VALUES (1, 1.5), (2, -0.25), (3, NULL), (4, 0.0), (5, 1.5));

-- @table ty_bool partition_by=bucket(3, id)
CREATE TABLE ty_bool (id INT, b BOOLEAN);
INSERT INTO ty_bool VALUES (1, true), (2, false), (3, NULL), (4, false), (5, true);

-- @table ty_small partition_by=bucket(3, id)
CREATE TABLE ty_small AS SELECT column1 AS id, arrow_cast(column2, 'Int8') AS i8, arrow_cast(column2, 'UInt16') AS u16 FROM (VALUES (1, 127), (2, 0), (3, NULL), (4, 5), (5, 127));

-- @table ty_all partition_by=bucket(4, i)
CREATE TABLE ty_all (i INT, b BIGINT, s VARCHAR, d DATE, ts TIMESTAMP, f DOUBLE, x DECIMAL(15,2), o BOOLEAN);
INSERT INTO ty_all VALUES (1, 10, 'a', DATE '2024-01-01', TIMESTAMP '2024-01-01 01:00:00', 1.5, 1.25, true), (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL), (3, -5, '', DATE '1960-01-01', TIMESTAMP '1960-01-01 00:00:00', -2.5, -0.01, false);
INSERT INTO ty_all VALUES (4, 10, 'a', DATE '2024-01-01', TIMESTAMP '2024-01-01 01:00:00', 1.5, 1.25, true);

-- @query type_bin_rows rows=5
SELECT * FROM ty_bin

-- @query type_bin_equal rows=2
SELECT id FROM ty_bin WHERE b = arrow_cast('abc', 'Binary')

-- @query type_bin_less rows=1
SELECT id FROM ty_bin WHERE b < arrow_cast('abc', 'Binary')

-- @query type_bin_null
SELECT id FROM ty_bin WHERE b IS NULL
-- @expect
3

-- @query type_bin_group rows=4
SELECT b, count(*), min(id) FROM ty_bin GROUP BY b

-- @query type_bin_join rows=6
SELECT x.id, y.id FROM ty_bin x JOIN ty_bin y ON x.b = y.b

-- @query type_bin_order ordered rows=5
SELECT id FROM ty_bin ORDER BY b NULLS FIRST, id

-- @query type_bin_min_max rows=1
SELECT min(b) = max(b), count(b), count(DISTINCT b) FROM ty_bin

-- @query type_bin_union_distinct rows=1
SELECT count(*) FROM (SELECT b FROM ty_bin UNION SELECT b FROM ty_bin) q

-- @query type_time_rows rows=5
SELECT * FROM ty_time

-- @query type_time_equal rows=2
SELECT id FROM ty_time WHERE t = CAST('12:30:00' AS TIME)

-- @query type_time_less rows=1
SELECT id FROM ty_time WHERE t < CAST('12:30:00' AS TIME)

-- @query type_time_null
SELECT id FROM ty_time WHERE t IS NULL
-- @expect
3

-- @query type_time_group rows=4
SELECT t, count(*), min(id) FROM ty_time GROUP BY t

-- @query type_time_join rows=6
SELECT x.id, y.id FROM ty_time x JOIN ty_time y ON x.t = y.t

-- @query type_time_order ordered rows=5
SELECT id FROM ty_time ORDER BY t NULLS FIRST, id

-- @query type_time_min_max rows=1
SELECT min(t) = max(t), count(t), count(DISTINCT t) FROM ty_time

-- @query type_time_union_distinct rows=1
SELECT count(*) FROM (SELECT t FROM ty_time UNION SELECT t FROM ty_time) q

-- @query type_large_rows rows=5
SELECT * FROM ty_large

-- @query type_large_equal rows=2
SELECT id FROM ty_large WHERE s = 'abc'

-- @query type_large_less rows=2
SELECT id FROM ty_large WHERE s < 'abc'

-- @query type_large_null
SELECT id FROM ty_large WHERE s IS NULL
-- @expect
3

-- @query type_large_group rows=4
SELECT s, count(*), min(id) FROM ty_large GROUP BY s

-- @query type_large_join rows=6
SELECT x.id, y.id FROM ty_large x JOIN ty_large y ON x.s = y.s

-- @query type_large_order ordered rows=5
SELECT id FROM ty_large ORDER BY s NULLS FIRST, id

-- @query type_large_min_max rows=1
SELECT min(s) = max(s), count(s), count(DISTINCT s) FROM ty_large

-- @query type_large_union_distinct rows=1
SELECT count(*) FROM (SELECT s FROM ty_large UNION SELECT s FROM ty_large) q

-- @query type_u64_rows rows=5
SELECT * FROM ty_u64

-- @query type_u64_equal rows=2
SELECT id FROM ty_u64 WHERE u = 0

-- @query type_u64_less rows=0
SELECT id FROM ty_u64 WHERE u < 0

-- @query type_u64_null
SELECT id FROM ty_u64 WHERE u IS NULL
-- @expect
3

-- @query type_u64_group rows=4
SELECT u, count(*), min(id) FROM ty_u64 GROUP BY u

-- @query type_u64_join rows=6
SELECT x.id, y.id FROM ty_u64 x JOIN ty_u64 y ON x.u = y.u

-- @query type_u64_order ordered rows=5
SELECT id FROM ty_u64 ORDER BY u NULLS FIRST, id

-- @query type_u64_min_max rows=1
SELECT min(u) = max(u), count(u), count(DISTINCT u) FROM ty_u64

-- @query type_u64_union_distinct rows=1
SELECT count(*) FROM (SELECT u FROM ty_u64 UNION SELECT u FROM ty_u64) q

-- @query type_f32_rows rows=5
SELECT * FROM ty_f32

-- @query type_f32_equal rows=2
SELECT id FROM ty_f32 WHERE f = 1.5

-- @query type_f32_less rows=2
SELECT id FROM ty_f32 WHERE f < 1.5

-- @query type_f32_null
SELECT id FROM ty_f32 WHERE f IS NULL
-- @expect
3

-- @query type_f32_group rows=4
SELECT f, count(*), min(id) FROM ty_f32 GROUP BY f

-- @query type_f32_join rows=6
SELECT x.id, y.id FROM ty_f32 x JOIN ty_f32 y ON x.f = y.f

-- @query type_f32_order ordered rows=5
SELECT id FROM ty_f32 ORDER BY f NULLS FIRST, id

-- @query type_f32_min_max rows=1
SELECT min(f) = max(f), count(f), count(DISTINCT f) FROM ty_f32

-- @query type_f32_union_distinct rows=1
SELECT count(*) FROM (SELECT f FROM ty_f32 UNION SELECT f FROM ty_f32) q

-- @query type_bool_rows
SELECT * FROM ty_bool
-- @expect
1	true
2	false
3	NULL
4	false
5	true

-- @query type_bool_equal
SELECT id FROM ty_bool WHERE b = false
-- @expect
2
4

-- @query type_bool_less
SELECT id FROM ty_bool WHERE b < false
-- @expect

-- @query type_bool_null
SELECT id FROM ty_bool WHERE b IS NULL
-- @expect
3

-- @query type_bool_group
SELECT b, count(*), min(id) FROM ty_bool GROUP BY b
-- @expect
NULL	1	3
false	2	2
true	2	1

-- @query type_bool_join
SELECT x.id, y.id FROM ty_bool x JOIN ty_bool y ON x.b = y.b
-- @expect
1	1
1	5
2	2
2	4
4	2
4	4
5	1
5	5

-- @query type_bool_order ordered
SELECT id FROM ty_bool ORDER BY b NULLS FIRST, id
-- @expect
3
2
4
1
5

-- @query type_bool_min_max
SELECT min(b) = max(b), count(b), count(DISTINCT b) FROM ty_bool
-- @expect
false	4	2

-- @query type_bool_union_distinct
SELECT count(*) FROM (SELECT b FROM ty_bool UNION SELECT b FROM ty_bool) q
-- @expect
3

-- @query type_small_rows rows=5
SELECT * FROM ty_small

-- @query type_small_equal rows=2
SELECT id FROM ty_small WHERE i8 = 127

-- @query type_small_less rows=2
SELECT id FROM ty_small WHERE i8 < 127

-- @query type_small_null
SELECT id FROM ty_small WHERE i8 IS NULL
-- @expect
3

-- @query type_small_group rows=4
SELECT i8, count(*), min(id) FROM ty_small GROUP BY i8

-- @query type_small_join rows=6
SELECT x.id, y.id FROM ty_small x JOIN ty_small y ON x.i8 = y.i8

-- @query type_small_order ordered rows=5
SELECT id FROM ty_small ORDER BY i8 NULLS FIRST, id

-- @query type_small_min_max rows=1
SELECT min(i8) = max(i8), count(i8), count(DISTINCT i8) FROM ty_small

-- @query type_small_union_distinct rows=1
SELECT count(*) FROM (SELECT i8 FROM ty_small UNION SELECT i8 FROM ty_small) q

-- @query type_u64_values ordered
SELECT id, u FROM ty_u64 WHERE u > 5 ORDER BY u
-- @expect
4	9223372036854775808
1	18446744073709551615

-- @query type_all_rows rows=4
SELECT * FROM ty_all

-- @query type_all_duplicates
SELECT count(*) FROM (SELECT DISTINCT b, s, d, ts, f, x, o FROM ty_all) q
-- @expect
3

-- @query type_all_group rows=3
SELECT b, s, d, ts, f, x, o, count(*), sum(i) FROM ty_all GROUP BY b, s, d, ts, f, x, o

-- @query type_all_self_join_on_everything
SELECT l.i, r.i FROM ty_all l JOIN ty_all r ON l.b = r.b AND l.s = r.s AND l.d = r.d AND l.ts = r.ts AND l.f = r.f AND l.x = r.x AND l.o = r.o
-- @expect
1	1
1	4
3	3
4	1
4	4

-- @query type_all_aggregates
SELECT count(b), sum(b), min(s), max(s), min(d), max(d), sum(f), sum(x), bool_or(o) FROM ty_all
-- @expect
3	15	(empty)	a	1960-01-01	2024-01-01	0.5	2.49	true

-- @query type_all_order ordered
SELECT i FROM ty_all ORDER BY d NULLS FIRST, x DESC, i
-- @expect
2
3
1
4

-- @query type_all_left_join_null_fill
SELECT a.i, z.* FROM ty_all a LEFT JOIN ty_all z ON a.i = z.i + 100
-- @expect
1	NULL	NULL	NULL	NULL	NULL	NULL	NULL	NULL
2	NULL	NULL	NULL	NULL	NULL	NULL	NULL	NULL
3	NULL	NULL	NULL	NULL	NULL	NULL	NULL	NULL
4	NULL	NULL	NULL	NULL	NULL	NULL	NULL	NULL

-- @query type_all_union_with_nulls
SELECT i, s, d, x FROM ty_all UNION ALL SELECT NULL, NULL, NULL, NULL
-- @expect
1	a	2024-01-01	1.25
2	NULL	NULL	NULL
3	(empty)	1960-01-01	-0.01
4	a	2024-01-01	1.25
NULL	NULL	NULL	NULL
