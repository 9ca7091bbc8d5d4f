-- Tables partitioned by values, buckets and expressions of every key type. Each filter is asked of the table and of an
-- unpartitioned copy's known answer; a prune must not lose rows.

-- @table pt_int_v partition_by=k
CREATE TABLE pt_int_v (id INT, k INT);
INSERT INTO pt_int_v VALUES (1, NULL), (2, -2147483648), (3, -1), (4, 0), (5, 1), (6, 7), (7, 2147483647), (8, 7);

-- @query part_int_v_equal
SELECT id FROM pt_int_v WHERE k = 7
-- @expect
6
8

-- @query part_int_v_not_equal
SELECT id FROM pt_int_v WHERE k <> 7
-- @expect
2
3
4
5
7

-- @query part_int_v_null
SELECT id FROM pt_int_v WHERE k IS NULL
-- @expect
1

-- @query part_int_v_not_null
SELECT id FROM pt_int_v WHERE k IS NOT NULL
-- @expect
2
3
4
5
6
7
8

-- @query part_int_v_in
SELECT id FROM pt_int_v WHERE k IN (7, -1, NULL)
-- @expect
3
6
8

-- @query part_int_v_not_in
SELECT id FROM pt_int_v WHERE k NOT IN (7, -1)
-- @expect
2
4
5
7

-- @query part_int_v_less
SELECT id FROM pt_int_v WHERE k < 7
-- @expect
2
3
4
5

-- @query part_int_v_greater_equal
SELECT id FROM pt_int_v WHERE k >= 7
-- @expect
6
7
8

-- @query part_int_v_or
SELECT id FROM pt_int_v WHERE k = -1 OR k IS NULL OR id = 7
-- @expect
1
3
7

-- @query part_int_v_between
SELECT id FROM pt_int_v WHERE k BETWEEN -1 AND 7
-- @expect
3
4
5
6
8

-- @query part_int_v_rows
SELECT id, k FROM pt_int_v
-- @expect
1	NULL
2	-2147483648
3	-1
4	0
5	1
6	7
7	2147483647
8	7

-- @query part_int_v_group
SELECT k, count(*), min(id) FROM pt_int_v GROUP BY k
-- @expect
-2147483648	1	2
-1	1	3
0	1	4
1	1	5
7	2	6
2147483647	1	7
NULL	1	1

-- @table pt_int_b partition_by=bucket(3, k)
CREATE TABLE pt_int_b (id INT, k INT);
INSERT INTO pt_int_b VALUES (1, NULL), (2, -2147483648), (3, -1), (4, 0), (5, 1), (6, 7), (7, 2147483647), (8, 7);

-- @query part_int_b_equal
SELECT id FROM pt_int_b WHERE k = 7
-- @expect
6
8

-- @query part_int_b_not_equal
SELECT id FROM pt_int_b WHERE k <> 7
-- @expect
2
3
4
5
7

-- @query part_int_b_null
SELECT id FROM pt_int_b WHERE k IS NULL
-- @expect
1

-- @query part_int_b_in
SELECT id FROM pt_int_b WHERE k IN (7, -1, NULL)
-- @expect
3
6
8

-- @query part_int_b_less
SELECT id FROM pt_int_b WHERE k < 7
-- @expect
2
3
4
5

-- @query part_int_b_rows
SELECT id, k FROM pt_int_b
-- @expect
1	NULL
2	-2147483648
3	-1
4	0
5	1
6	7
7	2147483647
8	7

-- @query part_int_b_group
SELECT k, count(*), min(id) FROM pt_int_b GROUP BY k
-- @expect
-2147483648	1	2
-1	1	3
0	1	4
1	1	5
7	2	6
2147483647	1	7
NULL	1	1

-- @query part_int_join
SELECT a.id, b.id FROM pt_int_v a JOIN pt_int_b b ON a.k = b.k
-- @expect
2	2
3	3
4	4
5	5
6	6
6	8
7	7
8	6
8	8

-- @query part_int_full_join
SELECT a.id, b.id FROM pt_int_v a FULL JOIN pt_int_b b ON a.k = b.k AND a.id < b.id
-- @expect
1	NULL
2	NULL
3	NULL
4	NULL
5	NULL
6	8
7	NULL
8	NULL
NULL	1
NULL	2
NULL	3
NULL	4
NULL	5
NULL	6
NULL	7

-- @table pt_bigint_v partition_by=k
CREATE TABLE pt_bigint_v (id INT, k BIGINT);
INSERT INTO pt_bigint_v VALUES (1, NULL), (2, -9223372036854775808), (3, -1), (4, 0), (5, 1), (6, 7), (7, 9223372036854775807), (8, 7);

-- @query part_bigint_v_equal
SELECT id FROM pt_bigint_v WHERE k = 7
-- @expect
6
8

-- @query part_bigint_v_in
SELECT id FROM pt_bigint_v WHERE k IN (7, -1, NULL)
-- @expect
3
6
8

-- @query part_bigint_v_or
SELECT id FROM pt_bigint_v WHERE k = -1 OR k IS NULL OR id = 7
-- @expect
1
3
7

-- @query part_bigint_v_rows
SELECT id, k FROM pt_bigint_v
-- @expect
1	NULL
2	-9223372036854775808
3	-1
4	0
5	1
6	7
7	9223372036854775807
8	7

-- @query part_bigint_v_group
SELECT k, count(*), min(id) FROM pt_bigint_v GROUP BY k
-- @expect
-9223372036854775808	1	2
-1	1	3
0	1	4
1	1	5
7	2	6
9223372036854775807	1	7
NULL	1	1

-- @table pt_bigint_b partition_by=bucket(3, k)
CREATE TABLE pt_bigint_b (id INT, k BIGINT);
INSERT INTO pt_bigint_b VALUES (1, NULL), (2, -9223372036854775808), (3, -1), (4, 0), (5, 1), (6, 7), (7, 9223372036854775807), (8, 7);

-- @query part_bigint_b_equal
SELECT id FROM pt_bigint_b WHERE k = 7
-- @expect
6
8

-- @query part_bigint_b_in
SELECT id FROM pt_bigint_b WHERE k IN (7, -1, NULL)
-- @expect
3
6
8

-- @query part_bigint_b_or
SELECT id FROM pt_bigint_b WHERE k = -1 OR k IS NULL OR id = 7
-- @expect
1
3
7

-- @query part_bigint_b_rows
SELECT id, k FROM pt_bigint_b
-- @expect
1	NULL
2	-9223372036854775808
3	-1
4	0
5	1
6	7
7	9223372036854775807
8	7

-- @query part_bigint_b_group
SELECT k, count(*), min(id) FROM pt_bigint_b GROUP BY k
-- @expect
-9223372036854775808	1	2
-1	1	3
0	1	4
1	1	5
7	2	6
9223372036854775807	1	7
NULL	1	1

-- @query part_bigint_join
SELECT a.id, b.id FROM pt_bigint_v a JOIN pt_bigint_b b ON a.k = b.k
-- @expect
2	2
3	3
4	4
5	5
6	6
6	8
7	7
8	6
8	8

-- @query part_bigint_full_join
SELECT a.id, b.id FROM pt_bigint_v a FULL JOIN pt_bigint_b b ON a.k = b.k AND a.id < b.id
-- @expect
1	NULL
2	NULL
3	NULL
4	NULL
5	NULL
6	8
7	NULL
8	NULL
NULL	1
NULL	2
NULL	3
NULL	4
NULL	5
NULL	6
NULL	7

-- @table pt_bool_v partition_by=k
CREATE TABLE pt_bool_v (id INT, k BOOLEAN);
INSERT INTO pt_bool_v VALUES (1, NULL), (2, true), (3, false), (4, true), (5, NULL), (6, false), (7, true), (8, true);

-- @query part_bool_v_equal
SELECT id FROM pt_bool_v WHERE k = true
-- @expect
2
4
7
8

-- @query part_bool_v_not_equal
SELECT id FROM pt_bool_v WHERE k <> true
-- @expect
3
6

-- @query part_bool_v_null
SELECT id FROM pt_bool_v WHERE k IS NULL
-- @expect
1
5

-- @query part_bool_v_not_null
SELECT id FROM pt_bool_v WHERE k IS NOT NULL
-- @expect
2
3
4
6
7
8

-- @query part_bool_v_not_in
SELECT id FROM pt_bool_v WHERE k NOT IN (true, false)
-- @expect

-- @query part_bool_v_or
SELECT id FROM pt_bool_v WHERE k = false OR k IS NULL OR id = 7
-- @expect
1
3
5
6
7

-- @query part_bool_v_rows
SELECT id, k FROM pt_bool_v
-- @expect
1	NULL
2	true
3	false
4	true
5	NULL
6	false
7	true
8	true

-- @query part_bool_v_group
SELECT k, count(*), min(id) FROM pt_bool_v GROUP BY k
-- @expect
NULL	2	1
false	2	3
true	4	2

-- @table pt_bool_b partition_by=bucket(3, k)
CREATE TABLE pt_bool_b (id INT, k BOOLEAN);
INSERT INTO pt_bool_b VALUES (1, NULL), (2, true), (3, false), (4, true), (5, NULL), (6, false), (7, true), (8, true);

-- @query part_bool_b_equal
SELECT id FROM pt_bool_b WHERE k = true
-- @expect
2
4
7
8

-- @query part_bool_b_not_equal
SELECT id FROM pt_bool_b WHERE k <> true
-- @expect
3
6

-- @query part_bool_b_null
SELECT id FROM pt_bool_b WHERE k IS NULL
-- @expect
1
5

-- @query part_bool_b_rows
SELECT id, k FROM pt_bool_b
-- @expect
1	NULL
2	true
3	false
4	true
5	NULL
6	false
7	true
8	true

-- @query part_bool_b_group
SELECT k, count(*), min(id) FROM pt_bool_b GROUP BY k
-- @expect
NULL	2	1
false	2	3
true	4	2

-- @query part_bool_join
SELECT a.id, b.id FROM pt_bool_v a JOIN pt_bool_b b ON a.k = b.k
-- @expect
2	2
2	4
2	7
2	8
3	3
3	6
4	2
4	4
4	7
4	8
6	3
6	6
7	2
7	4
7	7
7	8
8	2
8	4
8	7
8	8

-- @query part_bool_full_join
SELECT a.id, b.id FROM pt_bool_v a FULL JOIN pt_bool_b b ON a.k = b.k AND a.id < b.id
-- @expect
1	NULL
2	4
2	7
2	8
3	6
4	7
4	8
5	NULL
6	NULL
7	8
8	NULL
NULL	1
NULL	2
NULL	3
NULL	5

-- @table pt_date_v partition_by=k
CREATE TABLE pt_date_v (id INT, k DATE);
INSERT INTO pt_date_v VALUES (1, NULL), (2, DATE '1969-12-31'), (3, DATE '1970-01-01'), (4, DATE '2024-02-29'), (5, DATE '0001-01-01'), (6, DATE '9999-12-31'), (7, DATE '2026-11-30'), (8, DATE '2024-02-29');

-- @query part_date_v_equal
SELECT id FROM pt_date_v WHERE k = DATE '2024-02-29'
-- @expect
4
8

-- @query part_date_v_not_equal
SELECT id FROM pt_date_v WHERE k <> DATE '2024-02-29'
-- @expect
2
3
5
6
7

-- @query part_date_v_null
SELECT id FROM pt_date_v WHERE k IS NULL
-- @expect
1

-- @query part_date_v_not_null
SELECT id FROM pt_date_v WHERE k IS NOT NULL
-- @expect
2
3
4
5
6
7
8

-- @query part_date_v_in
SELECT id FROM pt_date_v WHERE k IN (DATE '2024-02-29', DATE '1970-01-01', NULL)
-- @expect
3
4
8

-- @query part_date_v_not_in
SELECT id FROM pt_date_v WHERE k NOT IN (DATE '2024-02-29', DATE '1970-01-01')
-- @expect
2
5
6
7

-- @query part_date_v_less
SELECT id FROM pt_date_v WHERE k < DATE '2024-02-29'
-- @expect
2
3
5

-- @query part_date_v_greater_equal
SELECT id FROM pt_date_v WHERE k >= DATE '2024-02-29'
-- @expect
4
6
7
8

-- @query part_date_v_or
SELECT id FROM pt_date_v WHERE k = DATE '1970-01-01' OR k IS NULL OR id = 7
-- @expect
1
3
7

-- @query part_date_v_between
SELECT id FROM pt_date_v WHERE k BETWEEN DATE '1970-01-01' AND DATE '2024-02-29'
-- @expect
3
4
8

-- @query part_date_v_rows
SELECT id, k FROM pt_date_v
-- @expect
1	NULL
2	1969-12-31
3	1970-01-01
4	2024-02-29
5	0001-01-01
6	9999-12-31
7	2026-11-30
8	2024-02-29

-- @query part_date_v_group
SELECT k, count(*), min(id) FROM pt_date_v GROUP BY k
-- @expect
0001-01-01	1	5
1969-12-31	1	2
1970-01-01	1	3
2024-02-29	2	4
2026-11-30	1	7
9999-12-31	1	6
NULL	1	1

-- @table pt_date_b partition_by=bucket(3, k)
CREATE TABLE pt_date_b (id INT, k DATE);
INSERT INTO pt_date_b VALUES (1, NULL), (2, DATE '1969-12-31'), (3, DATE '1970-01-01'), (4, DATE '2024-02-29'), (5, DATE '0001-01-01'), (6, DATE '9999-12-31'), (7, DATE '2026-11-30'), (8, DATE '2024-02-29');

-- @query part_date_b_equal
SELECT id FROM pt_date_b WHERE k = DATE '2024-02-29'
-- @expect
4
8

-- @query part_date_b_not_equal
SELECT id FROM pt_date_b WHERE k <> DATE '2024-02-29'
-- @expect
2
3
5
6
7

-- @query part_date_b_null
SELECT id FROM pt_date_b WHERE k IS NULL
-- @expect
1

-- @query part_date_b_in
SELECT id FROM pt_date_b WHERE k IN (DATE '2024-02-29', DATE '1970-01-01', NULL)
-- @expect
3
4
8

-- @query part_date_b_less
SELECT id FROM pt_date_b WHERE k < DATE '2024-02-29'
-- @expect
2
3
5

-- @query part_date_b_rows
SELECT id, k FROM pt_date_b
-- @expect
1	NULL
2	1969-12-31
3	1970-01-01
4	2024-02-29
5	0001-01-01
6	9999-12-31
7	2026-11-30
8	2024-02-29

-- @query part_date_b_group
SELECT k, count(*), min(id) FROM pt_date_b GROUP BY k
-- @expect
0001-01-01	1	5
1969-12-31	1	2
1970-01-01	1	3
2024-02-29	2	4
2026-11-30	1	7
9999-12-31	1	6
NULL	1	1

-- @query part_date_join
SELECT a.id, b.id FROM pt_date_v a JOIN pt_date_b b ON a.k = b.k
-- @expect
2	2
3	3
4	4
4	8
5	5
6	6
7	7
8	4
8	8

-- @query part_date_full_join
SELECT a.id, b.id FROM pt_date_v a FULL JOIN pt_date_b b ON a.k = b.k AND a.id < b.id
-- @expect
1	NULL
2	NULL
3	NULL
4	8
5	NULL
6	NULL
7	NULL
8	NULL
NULL	1
NULL	2
NULL	3
NULL	4
NULL	5
NULL	6
NULL	7

-- @table pt_ts_v partition_by=k
CREATE TABLE pt_ts_v (id INT, k TIMESTAMP);
INSERT INTO pt_ts_v VALUES (1, NULL), (2, TIMESTAMP '1969-12-31 23:59:59.999'), (3, TIMESTAMP '1970-01-01 00:00:00'), (4, TIMESTAMP '2024-02-29 12:00:00'), (5, TIMESTAMP '2024-02-29 12:00:00.001'), (6, TIMESTAMP '2026-01-01 00:00:00'), (7, TIMESTAMP '1900-01-01 00:00:00'), (8, TIMESTAMP '2024-02-29 12:00:00');

-- @query part_ts_v_equal
SELECT id FROM pt_ts_v WHERE k = TIMESTAMP '2024-02-29 12:00:00'
-- @expect
4
8

-- @query part_ts_v_not_equal
SELECT id FROM pt_ts_v WHERE k <> TIMESTAMP '2024-02-29 12:00:00'
-- @expect
2
3
5
6
7

-- @query part_ts_v_null
SELECT id FROM pt_ts_v WHERE k IS NULL
-- @expect
1

-- @query part_ts_v_not_null
SELECT id FROM pt_ts_v WHERE k IS NOT NULL
-- @expect
2
3
4
5
6
7
8

-- @query part_ts_v_in
SELECT id FROM pt_ts_v WHERE k IN (TIMESTAMP '2024-02-29 12:00:00', TIMESTAMP '1970-01-01 00:00:00', NULL)
-- @expect
3
4
8

-- @query part_ts_v_not_in
SELECT id FROM pt_ts_v WHERE k NOT IN (TIMESTAMP '2024-02-29 12:00:00', TIMESTAMP '1970-01-01 00:00:00')
-- @expect
2
5
6
7

-- @query part_ts_v_less
SELECT id FROM pt_ts_v WHERE k < TIMESTAMP '2024-02-29 12:00:00'
-- @expect
2
3
7

-- @query part_ts_v_greater_equal
SELECT id FROM pt_ts_v WHERE k >= TIMESTAMP '2024-02-29 12:00:00'
-- @expect
4
5
6
8

-- @query part_ts_v_or
SELECT id FROM pt_ts_v WHERE k = TIMESTAMP '1970-01-01 00:00:00' OR k IS NULL OR id = 7
-- @expect
1
3
7

-- @query part_ts_v_between
SELECT id FROM pt_ts_v WHERE k BETWEEN TIMESTAMP '1970-01-01 00:00:00' AND TIMESTAMP '2024-02-29 12:00:00'
-- @expect
3
4
8

-- @query part_ts_v_rows rows=8
SELECT id, k FROM pt_ts_v

-- @query part_ts_v_group rows=7
SELECT k, count(*), min(id) FROM pt_ts_v GROUP BY k

-- @table pt_ts_b partition_by=bucket(3, k)
CREATE TABLE pt_ts_b (id INT, k TIMESTAMP);
INSERT INTO pt_ts_b VALUES (1, NULL), (2, TIMESTAMP '1969-12-31 23:59:59.999'), (3, TIMESTAMP '1970-01-01 00:00:00'), (4, TIMESTAMP '2024-02-29 12:00:00'), (5, TIMESTAMP '2024-02-29 12:00:00.001'), (6, TIMESTAMP '2026-01-01 00:00:00'), (7, TIMESTAMP '1900-01-01 00:00:00'), (8, TIMESTAMP '2024-02-29 12:00:00');

-- @query part_ts_b_equal
SELECT id FROM pt_ts_b WHERE k = TIMESTAMP '2024-02-29 12:00:00'
-- @expect
4
8

-- @query part_ts_b_not_equal
SELECT id FROM pt_ts_b WHERE k <> TIMESTAMP '2024-02-29 12:00:00'
-- @expect
2
3
5
6
7

-- @query part_ts_b_null
SELECT id FROM pt_ts_b WHERE k IS NULL
-- @expect
1

-- @query part_ts_b_in
SELECT id FROM pt_ts_b WHERE k IN (TIMESTAMP '2024-02-29 12:00:00', TIMESTAMP '1970-01-01 00:00:00', NULL)
-- @expect
3
4
8

-- @query part_ts_b_less
SELECT id FROM pt_ts_b WHERE k < TIMESTAMP '2024-02-29 12:00:00'
-- @expect
2
3
7

-- @query part_ts_b_rows rows=8
SELECT id, k FROM pt_ts_b

-- @query part_ts_b_group rows=7
SELECT k, count(*), min(id) FROM pt_ts_b GROUP BY k

-- @query part_ts_join
SELECT a.id, b.id FROM pt_ts_v a JOIN pt_ts_b b ON a.k = b.k
-- @expect
2	2
3	3
4	4
4	8
5	5
6	6
7	7
8	4
8	8

-- @query part_ts_full_join
SELECT a.id, b.id FROM pt_ts_v a FULL JOIN pt_ts_b b ON a.k = b.k AND a.id < b.id
-- @expect
1	NULL
2	NULL
3	NULL
4	8
5	NULL
6	NULL
7	NULL
8	NULL
NULL	1
NULL	2
NULL	3
NULL	4
NULL	5
NULL	6
NULL	7

-- @table pt_dec_v partition_by=k
CREATE TABLE pt_dec_v (id INT, k DECIMAL(12,3));
INSERT INTO pt_dec_v VALUES (1, NULL), (2, 0.000), (3, -0.001), (4, 1.500), (5, 1.501), (6, 999999999.999), (7, -999999999.999), (8, 1.5);

-- @query part_dec_v_equal
SELECT id FROM pt_dec_v WHERE k = 1.5
-- @expect
4
8

-- @query part_dec_v_not_equal
SELECT id FROM pt_dec_v WHERE k <> 1.5
-- @expect
2
3
5
6
7

-- @query part_dec_v_null
SELECT id FROM pt_dec_v WHERE k IS NULL
-- @expect
1

-- @query part_dec_v_not_null
SELECT id FROM pt_dec_v WHERE k IS NOT NULL
-- @expect
2
3
4
5
6
7
8

-- @query part_dec_v_in
SELECT id FROM pt_dec_v WHERE k IN (1.5, -0.001, NULL)
-- @expect
3
4
8

-- @query part_dec_v_not_in
SELECT id FROM pt_dec_v WHERE k NOT IN (1.5, -0.001)
-- @expect
2
5
6
7

-- @query part_dec_v_less
SELECT id FROM pt_dec_v WHERE k < 1.5
-- @expect
2
3
7

-- @query part_dec_v_greater_equal
SELECT id FROM pt_dec_v WHERE k >= 1.5
-- @expect
4
5
6
8

-- @query part_dec_v_or
SELECT id FROM pt_dec_v WHERE k = -0.001 OR k IS NULL OR id = 7
-- @expect
1
3
7

-- @query part_dec_v_between
SELECT id FROM pt_dec_v WHERE k BETWEEN -0.001 AND 1.5
-- @expect
2
3
4
8

-- @query part_dec_v_rows
SELECT id, k FROM pt_dec_v
-- @expect
1	NULL
2	0.000
3	-0.001
4	1.500
5	1.501
6	999999999.999
7	-999999999.999
8	1.500

-- @query part_dec_v_group
SELECT k, count(*), min(id) FROM pt_dec_v GROUP BY k
-- @expect
-999999999.999	1	7
-0.001	1	3
0.000	1	2
1.500	2	4
1.501	1	5
999999999.999	1	6
NULL	1	1

-- @table pt_dec_b partition_by=bucket(3, k)
CREATE TABLE pt_dec_b (id INT, k DECIMAL(12,3));
INSERT INTO pt_dec_b VALUES (1, NULL), (2, 0.000), (3, -0.001), (4, 1.500), (5, 1.501), (6, 999999999.999), (7, -999999999.999), (8, 1.5);

-- @query part_dec_b_equal
SELECT id FROM pt_dec_b WHERE k = 1.5
-- @expect
4
8

-- @query part_dec_b_not_equal
SELECT id FROM pt_dec_b WHERE k <> 1.5
-- @expect
2
3
5
6
7

-- @query part_dec_b_null
SELECT id FROM pt_dec_b WHERE k IS NULL
-- @expect
1

-- @query part_dec_b_in
SELECT id FROM pt_dec_b WHERE k IN (1.5, -0.001, NULL)
-- @expect
3
4
8

-- @query part_dec_b_less
SELECT id FROM pt_dec_b WHERE k < 1.5
-- @expect
2
3
7

-- @query part_dec_b_rows
SELECT id, k FROM pt_dec_b
-- @expect
1	NULL
2	0.000
3	-0.001
4	1.500
5	1.501
6	999999999.999
7	-999999999.999
8	1.500

-- @query part_dec_b_group
SELECT k, count(*), min(id) FROM pt_dec_b GROUP BY k
-- @expect
-999999999.999	1	7
-0.001	1	3
0.000	1	2
1.500	2	4
1.501	1	5
999999999.999	1	6
NULL	1	1

-- @query part_dec_join
SELECT a.id, b.id FROM pt_dec_v a JOIN pt_dec_b b ON a.k = b.k
-- @expect
2	2
3	3
4	4
4	8
5	5
6	6
7	7
8	4
8	8

-- @query part_dec_full_join
SELECT a.id, b.id FROM pt_dec_v a FULL JOIN pt_dec_b b ON a.k = b.k AND a.id < b.id
-- @expect
1	NULL
2	NULL
3	NULL
4	8
5	NULL
6	NULL
7	NULL
8	NULL
NULL	1
NULL	2
NULL	3
NULL	4
NULL	5
NULL	6
NULL	7

-- @table pt_str_v partition_by=k
CREATE TABLE pt_str_v (id INT, k VARCHAR);
INSERT INTO pt_str_v VALUES (1, NULL), (2, ''), (3, 'a'), (4, 'A'), (5, 'b c'), (6, 'ü'), (7, 'zz'), (8, 'a');

-- @query part_str_v_equal
SELECT id FROM pt_str_v WHERE k = 'a'
-- @expect
3
8

-- @query part_str_v_not_equal
SELECT id FROM pt_str_v WHERE k <> 'a'
-- @expect
2
4
5
6
7

-- @query part_str_v_null
SELECT id FROM pt_str_v WHERE k IS NULL
-- @expect
1

-- @query part_str_v_not_null
SELECT id FROM pt_str_v WHERE k IS NOT NULL
-- @expect
2
3
4
5
6
7
8

-- @query part_str_v_in
SELECT id FROM pt_str_v WHERE k IN ('a', 'a', NULL)
-- @expect
3
8

-- @query part_str_v_not_in
SELECT id FROM pt_str_v WHERE k NOT IN ('a', 'a')
-- @expect
2
4
5
6
7

-- @query part_str_v_less
SELECT id FROM pt_str_v WHERE k < 'a'
-- @expect
2
4

-- @query part_str_v_greater_equal
SELECT id FROM pt_str_v WHERE k >= 'a'
-- @expect
3
5
6
7
8

-- @query part_str_v_or
SELECT id FROM pt_str_v WHERE k = 'a' OR k IS NULL OR id = 7
-- @expect
1
3
7
8

-- @query part_str_v_between
SELECT id FROM pt_str_v WHERE k BETWEEN 'a' AND 'a'
-- @expect
3
8

-- @query part_str_v_rows
SELECT id, k FROM pt_str_v
-- @expect
1	NULL
2	(empty)
3	a
4	A
5	b c
6	ü
7	zz
8	a

-- @query part_str_v_group
SELECT k, count(*), min(id) FROM pt_str_v GROUP BY k
-- @expect
(empty)	1	2
A	1	4
NULL	1	1
a	2	3
b c	1	5
zz	1	7
ü	1	6

-- @table pt_str_b partition_by=bucket(3, k)
CREATE TABLE pt_str_b (id INT, k VARCHAR);
INSERT INTO pt_str_b VALUES (1, NULL), (2, ''), (3, 'a'), (4, 'A'), (5, 'b c'), (6, 'ü'), (7, 'zz'), (8, 'a');

-- @query part_str_b_equal
SELECT id FROM pt_str_b WHERE k = 'a'
-- @expect
3
8

-- @query part_str_b_not_equal
SELECT id FROM pt_str_b WHERE k <> 'a'
-- @expect
2
4
5
6
7

-- @query part_str_b_null
SELECT id FROM pt_str_b WHERE k IS NULL
-- @expect
1

-- @query part_str_b_in
SELECT id FROM pt_str_b WHERE k IN ('a', 'a', NULL)
-- @expect
3
8

-- @query part_str_b_less
SELECT id FROM pt_str_b WHERE k < 'a'
-- @expect
2
4

-- @query part_str_b_rows
SELECT id, k FROM pt_str_b
-- @expect
1	NULL
2	(empty)
3	a
4	A
5	b c
6	ü
7	zz
8	a

-- @query part_str_b_group
SELECT k, count(*), min(id) FROM pt_str_b GROUP BY k
-- @expect
(empty)	1	2
A	1	4
NULL	1	1
a	2	3
b c	1	5
zz	1	7
ü	1	6

-- @query part_str_join
SELECT a.id, b.id FROM pt_str_v a JOIN pt_str_b b ON a.k = b.k
-- @expect
2	2
3	3
3	8
4	4
5	5
6	6
7	7
8	3
8	8

-- @query part_str_full_join
SELECT a.id, b.id FROM pt_str_v a FULL JOIN pt_str_b b ON a.k = b.k AND a.id < b.id
-- @expect
1	NULL
2	NULL
3	8
4	NULL
5	NULL
6	NULL
7	NULL
8	NULL
NULL	1
NULL	2
NULL	3
NULL	4
NULL	5
NULL	6
NULL	7

-- @table pe_src
CREATE TABLE pe_src (id INT, d DATE, ts TIMESTAMP, a INT, s VARCHAR);
INSERT INTO pe_src SELECT value, CAST('2022-11-15' AS DATE) + CAST(value * 20 AS INT), CAST(CAST('2022-11-15' AS DATE) + CAST(value * 20 AS INT) AS TIMESTAMP) + INTERVAL '5' HOUR, CASE WHEN value % 12 = 0 THEN NULL ELSE value % 11 - 5 END, CASE WHEN value % 9 = 0 THEN NULL WHEN value % 2 = 0 THEN 'Key' || CAST(value % 5 AS VARCHAR) ELSE 'KEY' || CAST(value % 5 AS VARCHAR) END FROM generate_series(1, 60) AS g(value);
INSERT INTO pe_src VALUES (61, NULL, NULL, NULL, NULL), (62, DATE '1969-12-31', TIMESTAMP '1969-12-31 23:59:59', -7, '');

-- @table pe_year partition_by=year(d)
CREATE TABLE pe_year (id INT, d DATE, ts TIMESTAMP, a INT, s VARCHAR);
INSERT INTO pe_year SELECT id, d, ts, a, s FROM pe_src;

-- @query part_expr_year_count
SELECT count(*), count(DISTINCT id), sum(id), count(d), count(s) FROM pe_year
-- @expect
62	62	1953	61	55

-- @query part_expr_year_same_rows
SELECT count(*) FROM (SELECT * FROM pe_year INTERSECT SELECT * FROM pe_src) q
-- @expect
62

-- @query part_expr_year_date_equal
SELECT id FROM pe_year WHERE d = DATE '2023-02-23'
-- @expect
5

-- @query part_expr_year_date_range
SELECT id FROM pe_year WHERE d >= DATE '2023-06-01' AND d < DATE '2024-02-01'
-- @expect
10
11
12
13
14
15
16
17
18
19
20
21
22

-- @query part_expr_year_year_equal
SELECT id FROM pe_year WHERE extract(year FROM d) = 2023
-- @expect
3
4
5
6
7
8
9
10
11
12
13
14
15
16
17
18
19
20

-- @query part_expr_year_or
SELECT id FROM pe_year WHERE a = 2 OR d < DATE '1970-01-01' OR s IS NULL
-- @expect
7
9
18
27
29
36
40
45
51
54
61
62

-- @query part_expr_year_a_null
SELECT id FROM pe_year WHERE a IS NULL
-- @expect
12
24
36
48
60
61

-- @table pe_month partition_by=date_trunc('month', ts)
CREATE TABLE pe_month (id INT, d DATE, ts TIMESTAMP, a INT, s VARCHAR);
INSERT INTO pe_month SELECT id, d, ts, a, s FROM pe_src;

-- @query part_expr_month_count
SELECT count(*), count(DISTINCT id), sum(id), count(d), count(s) FROM pe_month
-- @expect
62	62	1953	61	55

-- @query part_expr_month_same_rows
SELECT count(*) FROM (SELECT * FROM pe_month INTERSECT SELECT * FROM pe_src) q
-- @expect
62

-- @query part_expr_month_ts_range
SELECT id FROM pe_month WHERE ts > TIMESTAMP '2023-03-01 00:00:00' AND ts <= TIMESTAMP '2023-09-01 05:00:00'
-- @expect
6
7
8
9
10
11
12
13
14

-- @query part_expr_month_ts_trunc
SELECT id FROM pe_month WHERE date_trunc('month', ts) = TIMESTAMP '2023-03-01 00:00:00'
-- @expect
6

-- @query part_expr_month_date_range
SELECT id FROM pe_month WHERE d >= DATE '2023-06-01' AND d < DATE '2024-02-01'
-- @expect
10
11
12
13
14
15
16
17
18
19
20
21
22

-- @query part_expr_month_or
SELECT id FROM pe_month WHERE a = 2 OR d < DATE '1970-01-01' OR s IS NULL
-- @expect
7
9
18
27
29
36
40
45
51
54
61
62

-- @table pe_mod partition_by=a % 3
CREATE TABLE pe_mod (id INT, d DATE, ts TIMESTAMP, a INT, s VARCHAR);
INSERT INTO pe_mod SELECT id, d, ts, a, s FROM pe_src;

-- @query part_expr_mod_count
SELECT count(*), count(DISTINCT id), sum(id), count(d), count(s) FROM pe_mod
-- @expect
62	62	1953	61	55

-- @query part_expr_mod_same_rows
SELECT count(*) FROM (SELECT * FROM pe_mod INTERSECT SELECT * FROM pe_src) q
-- @expect
62

-- @query part_expr_mod_a_equal
SELECT id FROM pe_mod WHERE a = 2
-- @expect
7
18
29
40
51

-- @query part_expr_mod_a_mod
SELECT id FROM pe_mod WHERE a % 3 = 1
-- @expect
6
9
17
20
28
31
39
42
50
53

-- @query part_expr_mod_a_negative_mod
SELECT id FROM pe_mod WHERE a % 3 = -2
-- @expect
3
11
14
22
25
33
44
47
55
58

-- @query part_expr_mod_a_range
SELECT id FROM pe_mod WHERE a > -3 AND a <= 1
-- @expect
3
4
5
6
14
15
16
17
25
26
27
28
37
38
39
47
49
50
58
59

-- @query part_expr_mod_a_null
SELECT id FROM pe_mod WHERE a IS NULL
-- @expect
12
24
36
48
60
61

-- @query part_expr_mod_not_in rows=46
SELECT id FROM pe_mod WHERE a NOT IN (1, 2)

-- @query part_expr_mod_or
SELECT id FROM pe_mod WHERE a = 2 OR d < DATE '1970-01-01' OR s IS NULL
-- @expect
7
9
18
27
29
36
40
45
51
54
61
62

-- @table pe_lower partition_by=lower(s)
CREATE TABLE pe_lower (id INT, d DATE, ts TIMESTAMP, a INT, s VARCHAR);
INSERT INTO pe_lower SELECT id, d, ts, a, s FROM pe_src;

-- @query part_expr_lower_count
SELECT count(*), count(DISTINCT id), sum(id), count(d), count(s) FROM pe_lower
-- @expect
62	62	1953	61	55

-- @query part_expr_lower_same_rows
SELECT count(*) FROM (SELECT * FROM pe_lower INTERSECT SELECT * FROM pe_src) q
-- @expect
62

-- @query part_expr_lower_s_equal
SELECT id FROM pe_lower WHERE s = 'KEY1'
-- @expect
1
11
21
31
41
51

-- @query part_expr_lower_s_lower
SELECT id FROM pe_lower WHERE lower(s) = 'key2'
-- @expect
2
7
12
17
22
32
37
42
47
52
57

-- @query part_expr_lower_s_in
SELECT id FROM pe_lower WHERE s IN ('Key2', 'KEY3', NULL)
-- @expect
2
3
12
13
22
23
32
33
42
43
52
53

-- @query part_expr_lower_s_not_equal rows=49
SELECT id FROM pe_lower WHERE s <> 'Key2'

-- @query part_expr_lower_s_null
SELECT id FROM pe_lower WHERE s IS NULL
-- @expect
9
18
27
36
45
54
61

-- @query part_expr_lower_s_empty
SELECT id FROM pe_lower WHERE s = ''
-- @expect
62

-- @query part_expr_lower_or
SELECT id FROM pe_lower WHERE a = 2 OR d < DATE '1970-01-01' OR s IS NULL
-- @expect
7
9
18
27
29
36
40
45
51
54
61
62

-- @table pe_year_bucket partition_by=year(d), bucket(2, id)
CREATE TABLE pe_year_bucket (id INT, d DATE, ts TIMESTAMP, a INT, s VARCHAR);
INSERT INTO pe_year_bucket SELECT id, d, ts, a, s FROM pe_src;

-- @query part_expr_year_bucket_count
SELECT count(*), count(DISTINCT id), sum(id), count(d), count(s) FROM pe_year_bucket
-- @expect
62	62	1953	61	55

-- @query part_expr_year_bucket_same_rows
SELECT count(*) FROM (SELECT * FROM pe_year_bucket INTERSECT SELECT * FROM pe_src) q
-- @expect
62

-- @query part_expr_year_bucket_date_equal
SELECT id FROM pe_year_bucket WHERE d = DATE '2023-02-23'
-- @expect
5

-- @query part_expr_year_bucket_date_range
SELECT id FROM pe_year_bucket WHERE d >= DATE '2023-06-01' AND d < DATE '2024-02-01'
-- @expect
10
11
12
13
14
15
16
17
18
19
20
21
22

-- @query part_expr_year_bucket_year_equal
SELECT id FROM pe_year_bucket WHERE extract(year FROM d) = 2023
-- @expect
3
4
5
6
7
8
9
10
11
12
13
14
15
16
17
18
19
20

-- @query part_expr_year_bucket_a_equal
SELECT id FROM pe_year_bucket WHERE a = 2
-- @expect
7
18
29
40
51

-- @query part_expr_year_bucket_or
SELECT id FROM pe_year_bucket WHERE a = 2 OR d < DATE '1970-01-01' OR s IS NULL
-- @expect
7
9
18
27
29
36
40
45
51
54
61
62

-- @table pe_day partition_by=date_trunc('day', ts), a % 2
CREATE TABLE pe_day (id INT, d DATE, ts TIMESTAMP, a INT, s VARCHAR);
INSERT INTO pe_day SELECT id, d, ts, a, s FROM pe_src;

-- @query part_expr_day_count
SELECT count(*), count(DISTINCT id), sum(id), count(d), count(s) FROM pe_day
-- @expect
62	62	1953	61	55

-- @query part_expr_day_same_rows
SELECT count(*) FROM (SELECT * FROM pe_day INTERSECT SELECT * FROM pe_src) q
-- @expect
62

-- @query part_expr_day_ts_range
SELECT id FROM pe_day WHERE ts > TIMESTAMP '2023-03-01 00:00:00' AND ts <= TIMESTAMP '2023-09-01 05:00:00'
-- @expect
6
7
8
9
10
11
12
13
14

-- @query part_expr_day_ts_trunc
SELECT id FROM pe_day WHERE date_trunc('month', ts) = TIMESTAMP '2023-03-01 00:00:00'
-- @expect
6

-- @query part_expr_day_a_equal
SELECT id FROM pe_day WHERE a = 2
-- @expect
7
18
29
40
51

-- @query part_expr_day_a_negative_mod
SELECT id FROM pe_day WHERE a % 3 = -2
-- @expect
3
11
14
22
25
33
44
47
55
58

-- @query part_expr_day_a_null
SELECT id FROM pe_day WHERE a IS NULL
-- @expect
12
24
36
48
60
61

-- @table pe_cast partition_by=CAST(ts AS DATE)
CREATE TABLE pe_cast (id INT, d DATE, ts TIMESTAMP, a INT, s VARCHAR);
INSERT INTO pe_cast SELECT id, d, ts, a, s FROM pe_src;

-- @query part_expr_cast_count
SELECT count(*), count(DISTINCT id), sum(id), count(d), count(s) FROM pe_cast
-- @expect
62	62	1953	61	55

-- @query part_expr_cast_same_rows
SELECT count(*) FROM (SELECT * FROM pe_cast INTERSECT SELECT * FROM pe_src) q
-- @expect
62

-- @query part_expr_cast_date_equal
SELECT id FROM pe_cast WHERE d = DATE '2023-02-23'
-- @expect
5

-- @query part_expr_cast_ts_range
SELECT id FROM pe_cast WHERE ts > TIMESTAMP '2023-03-01 00:00:00' AND ts <= TIMESTAMP '2023-09-01 05:00:00'
-- @expect
6
7
8
9
10
11
12
13
14

-- @query part_expr_cast_ts_trunc
SELECT id FROM pe_cast WHERE date_trunc('month', ts) = TIMESTAMP '2023-03-01 00:00:00'
-- @expect
6

-- @table pe_sub partition_by=substr(s, 1, 3)
CREATE TABLE pe_sub (id INT, d DATE, ts TIMESTAMP, a INT, s VARCHAR);
INSERT INTO pe_sub SELECT id, d, ts, a, s FROM pe_src;

-- @query part_expr_sub_count
SELECT count(*), count(DISTINCT id), sum(id), count(d), count(s) FROM pe_sub
-- @expect
62	62	1953	61	55

-- @query part_expr_sub_same_rows
SELECT count(*) FROM (SELECT * FROM pe_sub INTERSECT SELECT * FROM pe_src) q
-- @expect
62

-- @query part_expr_sub_s_equal
SELECT id FROM pe_sub WHERE s = 'KEY1'
-- @expect
1
11
21
31
41
51

-- @query part_expr_sub_s_lower
SELECT id FROM pe_sub WHERE lower(s) = 'key2'
-- @expect
2
7
12
17
22
32
37
42
47
52
57

-- @query part_expr_sub_s_in
SELECT id FROM pe_sub WHERE s IN ('Key2', 'KEY3', NULL)
-- @expect
2
3
12
13
22
23
32
33
42
43
52
53

-- @query part_expr_sub_s_null
SELECT id FROM pe_sub WHERE s IS NULL
-- @expect
9
18
27
36
45
54
61

-- @query part_expr_sub_s_empty
SELECT id FROM pe_sub WHERE s = ''
-- @expect
62

-- @query part_expr_group_by_expression
SELECT extract(year FROM d) AS y, count(*) FROM pe_year GROUP BY extract(year FROM d)
-- @expect
1969	1
2022	2
2023	18
2024	18
2025	19
2026	3
NULL	1

-- @query part_expr_group_by_lower
SELECT lower(s), count(*) FROM pe_lower GROUP BY lower(s)
-- @expect
(empty)	1
NULL	7
key0	11
key1	11
key2	11
key3	11
key4	10

-- @query part_expr_join
SELECT count(*) FROM pe_year x JOIN pe_month y ON x.d = y.d
-- @expect
61

-- @query part_expr_join_on_expression
SELECT count(*) FROM pe_mod x JOIN pe_lower y ON x.a % 3 = y.a % 3
-- @expect
646

-- @query part_expr_union
SELECT count(*) FROM (SELECT id FROM pe_year UNION SELECT id FROM pe_month UNION SELECT id FROM pe_mod UNION SELECT id FROM pe_sub) u
-- @expect
62

-- Equal floats may have several texts: 0.0 and -0.0 are in two partitions, and both are equal to 0.
-- @table pt_ft partition_by=CAST(f AS VARCHAR)
CREATE TABLE pt_ft (id INT, f DOUBLE);
INSERT INTO pt_ft SELECT column1, CAST(column2 AS DOUBLE) FROM (VALUES (1, '0.0'), (2, '-0.0'), (3, '1.5'), (4, 'NaN'), (5, NULL));

-- @query pt_ft_zero
SELECT id FROM pt_ft WHERE f = 0.0
-- @expect
1
2

-- @query pt_ft_zero_in
SELECT id FROM pt_ft WHERE f IN (-0.0, 1.5)
-- @expect
1
2
3

-- @query pt_ft_null
SELECT id FROM pt_ft WHERE f IS NULL
-- @expect
5

-- @table pt_co partition_by=coalesce(s, 'none'), nvl2(k, 1, 0)
CREATE TABLE pt_co (id INT, s VARCHAR, k INT);
INSERT INTO pt_co VALUES (1, 'a', 1), (2, NULL, NULL), (3, 'none', 3), (4, 'b', NULL);

-- @query pt_co_all
SELECT id, s, k FROM pt_co

-- @query pt_co_value
SELECT id FROM pt_co WHERE s = 'none'
-- @expect
3

-- @query pt_co_null
SELECT id FROM pt_co WHERE s IS NULL
-- @expect
2
