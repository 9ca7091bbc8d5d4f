-- Tables without rows, with one row, with empty partitions, and with more partitions than rows.

-- @table sm_zero
CREATE TABLE sm_zero (id INT, s VARCHAR, d DECIMAL(10,2));

-- @table sm_zero_b partition_by=bucket(7, id)
CREATE TABLE sm_zero_b (id INT, s VARCHAR, d DECIMAL(10,2));

-- @table sm_zero_v partition_by=s
CREATE TABLE sm_zero_v (id INT, s VARCHAR, d DECIMAL(10,2));

-- @table sm_zero_insert partition_by=bucket(3, id)
CREATE TABLE sm_zero_insert (id INT, s VARCHAR, d DECIMAL(10,2));
INSERT INTO sm_zero_insert SELECT id, s, d FROM sm_zero;

-- @table sm_one
CREATE TABLE sm_one (id INT, s VARCHAR, d DECIMAL(10,2));
INSERT INTO sm_one VALUES (7, 'seven', 7.70);

-- @table sm_one_b partition_by=bucket(16, id)
CREATE TABLE sm_one_b (id INT, s VARCHAR, d DECIMAL(10,2));
INSERT INTO sm_one_b VALUES (7, 'seven', 7.70);

-- @table sm_few partition_by=bucket(32, id)
CREATE TABLE sm_few (id INT, s VARCHAR, d DECIMAL(10,2));
INSERT INTO sm_few VALUES (1, 'a', 1.10), (2, 'b', 2.20), (3, NULL, NULL);

-- @table sm_skew partition_by=bucket(8, k)
CREATE TABLE sm_skew (k INT, v BIGINT);
INSERT INTO sm_skew SELECT 5, value FROM generate_series(1, 300) AS g(value);

-- @table sm_null_key partition_by=bucket(4, k)
CREATE TABLE sm_null_key (k INT, v BIGINT);
INSERT INTO sm_null_key SELECT NULL, value FROM generate_series(1, 10) AS g(value);

-- @table sm_many partition_by=id
CREATE TABLE sm_many (id INT, v INT);
INSERT INTO sm_many SELECT value, value * 2 FROM generate_series(1, 60) AS g(value);

-- @table sm_ctas_empty partition_by=bucket(4, id)
CREATE TABLE sm_ctas_empty AS SELECT id, v FROM sm_many WHERE id > 1000;

-- @table sm_wide
CREATE TABLE sm_wide AS SELECT value AS c1, value + 1 AS c2, value + 2 AS c3, value + 3 AS c4, value + 4 AS c5, value + 5 AS c6, value + 6 AS c7, value + 7 AS c8, value + 8 AS c9, value + 9 AS c10, value + 10 AS c11, value + 11 AS c12 FROM generate_series(1, 20) AS g(value);

-- @query sm_zero_rows
SELECT * FROM sm_zero
-- @expect

-- @query sm_zero_aggregate
SELECT count(*), count(s), sum(d), min(id), max(s), avg(d) FROM sm_zero
-- @expect
0	0	NULL	NULL	NULL	NULL

-- @query sm_zero_grouped
SELECT s, count(*) FROM sm_zero GROUP BY s
-- @expect

-- @query sm_zero_left_join
SELECT f.id, z.id FROM sm_few f LEFT JOIN sm_zero z ON f.id = z.id
-- @expect
1	NULL
2	NULL
3	NULL

-- @query sm_zero_full_join_order_limit ordered
SELECT f.id, z.s FROM sm_zero z FULL JOIN sm_few f ON f.id = z.id ORDER BY f.id LIMIT 2
-- @expect
1	NULL
2	NULL

-- @query sm_zero_union
SELECT count(*) FROM (SELECT id FROM sm_zero UNION ALL SELECT id FROM sm_few UNION ALL SELECT id FROM sm_zero) u
-- @expect
3

-- @query sm_zero_b_rows
SELECT * FROM sm_zero_b
-- @expect

-- @query sm_zero_b_aggregate
SELECT count(*), count(s), sum(d), min(id), max(s), avg(d) FROM sm_zero_b
-- @expect
0	0	NULL	NULL	NULL	NULL

-- @query sm_zero_b_grouped
SELECT s, count(*) FROM sm_zero_b GROUP BY s
-- @expect

-- @query sm_zero_b_left_join
SELECT f.id, z.id FROM sm_few f LEFT JOIN sm_zero_b z ON f.id = z.id
-- @expect
1	NULL
2	NULL
3	NULL

-- @query sm_zero_b_full_join_order_limit ordered
SELECT f.id, z.s FROM sm_zero_b z FULL JOIN sm_few f ON f.id = z.id ORDER BY f.id LIMIT 2
-- @expect
1	NULL
2	NULL

-- @query sm_zero_b_union
SELECT count(*) FROM (SELECT id FROM sm_zero_b UNION ALL SELECT id FROM sm_few UNION ALL SELECT id FROM sm_zero_b) u
-- @expect
3

-- @query sm_zero_v_rows
SELECT * FROM sm_zero_v
-- @expect

-- @query sm_zero_v_aggregate
SELECT count(*), count(s), sum(d), min(id), max(s), avg(d) FROM sm_zero_v
-- @expect
0	0	NULL	NULL	NULL	NULL

-- @query sm_zero_v_grouped
SELECT s, count(*) FROM sm_zero_v GROUP BY s
-- @expect

-- @query sm_zero_v_left_join
SELECT f.id, z.id FROM sm_few f LEFT JOIN sm_zero_v z ON f.id = z.id
-- @expect
1	NULL
2	NULL
3	NULL

-- @query sm_zero_v_full_join_order_limit ordered
SELECT f.id, z.s FROM sm_zero_v z FULL JOIN sm_few f ON f.id = z.id ORDER BY f.id LIMIT 2
-- @expect
1	NULL
2	NULL

-- @query sm_zero_v_union
SELECT count(*) FROM (SELECT id FROM sm_zero_v UNION ALL SELECT id FROM sm_few UNION ALL SELECT id FROM sm_zero_v) u
-- @expect
3

-- @query sm_zero_insert_rows
SELECT * FROM sm_zero_insert
-- @expect

-- @query sm_zero_insert_aggregate
SELECT count(*), count(s), sum(d), min(id), max(s), avg(d) FROM sm_zero_insert
-- @expect
0	0	NULL	NULL	NULL	NULL

-- @query sm_zero_insert_grouped
SELECT s, count(*) FROM sm_zero_insert GROUP BY s
-- @expect

-- @query sm_zero_insert_left_join
SELECT f.id, z.id FROM sm_few f LEFT JOIN sm_zero_insert z ON f.id = z.id
-- @expect
1	NULL
2	NULL
3	NULL

-- @query sm_zero_insert_full_join_order_limit ordered
SELECT f.id, z.s FROM sm_zero_insert z FULL JOIN sm_few f ON f.id = z.id ORDER BY f.id LIMIT 2
-- @expect
1	NULL
2	NULL

-- @query sm_zero_insert_union
SELECT count(*) FROM (SELECT id FROM sm_zero_insert UNION ALL SELECT id FROM sm_few UNION ALL SELECT id FROM sm_zero_insert) u
-- @expect
3

-- @query small_two_empty_full_join
SELECT a.id, b.id FROM sm_zero a FULL JOIN sm_zero_b b ON a.id = b.id
-- @expect

-- @query small_empty_not_in_empty
SELECT id FROM sm_zero_b WHERE id NOT IN (SELECT id FROM sm_zero_v)
-- @expect

-- @query small_not_in_empty
SELECT id FROM sm_few WHERE s NOT IN (SELECT s FROM sm_zero_v)
-- @expect
1
2
3

-- @query small_empty_window
SELECT id, rank() OVER (PARTITION BY s ORDER BY id) FROM sm_zero_b
-- @expect

-- @query small_empty_order_limit
SELECT id FROM sm_zero_b ORDER BY id LIMIT 3
-- @expect

-- @query small_empty_distinct
SELECT DISTINCT s FROM sm_zero_v
-- @expect

-- @query small_empty_scalar
SELECT (SELECT max(id) FROM sm_zero_b), (SELECT count(*) FROM sm_zero_v), (SELECT id FROM sm_zero)
-- @expect
NULL	0	NULL

-- @query small_empty_sum_of_sums
SELECT sum(s) FROM (SELECT sum(id) AS s FROM sm_zero_b UNION ALL SELECT sum(id) FROM sm_zero) u
-- @expect
NULL

-- @query small_empty_array_agg
SELECT array_agg(id), count(id) FROM sm_zero_b
-- @expect
NULL	0

-- @query small_empty_cross_join
SELECT count(*) FROM sm_zero_b CROSS JOIN sm_many
-- @expect
0

-- @query small_ctas_empty
SELECT count(*), max(v) FROM sm_ctas_empty
-- @expect
0	NULL

-- @query small_one_rows
SELECT id, s, d FROM sm_one
-- @expect
7	seven	7.70

-- @query small_one_bucketed_rows
SELECT id, s, d FROM sm_one_b
-- @expect
7	seven	7.70

-- @query small_one_join
SELECT a.id, b.d FROM sm_one a JOIN sm_one_b b ON a.id = b.id
-- @expect
7	7.70

-- @query small_one_aggregate
SELECT count(*), sum(d), avg(d) = 7.7, min(s) FROM sm_one_b
-- @expect
1	7.70	true	seven

-- @query small_one_window
SELECT row_number() OVER (), lag(id) OVER (ORDER BY id), lead(id) OVER (ORDER BY id) FROM sm_one_b
-- @expect
1	NULL	NULL

-- @query small_one_full_join_many
SELECT count(*), count(o.id) FROM sm_one_b o FULL JOIN sm_many m ON o.id = m.id
-- @expect
60	1

-- @query small_one_missing
SELECT id FROM sm_one_b WHERE id = 8
-- @expect

-- @query small_few_rows
SELECT id, s, d FROM sm_few
-- @expect
1	a	1.10
2	b	2.20
3	NULL	NULL

-- @query small_few_order ordered
SELECT id FROM sm_few ORDER BY s DESC NULLS LAST
-- @expect
2
1
3

-- @query small_few_group
SELECT s IS NULL, count(*), sum(d) FROM sm_few GROUP BY s IS NULL
-- @expect
false	2	3.30
true	1	NULL

-- @query small_few_cross
SELECT count(*) FROM sm_few a CROSS JOIN sm_few b CROSS JOIN sm_few c
-- @expect
27

-- @query small_skew_aggregate
SELECT k, count(*), sum(v) FROM sm_skew GROUP BY k
-- @expect
5	300	45150

-- @query small_skew_join
SELECT count(*) FROM sm_skew a JOIN sm_few b ON a.k = b.id + 2
-- @expect
300

-- @query small_skew_order ordered
SELECT v FROM sm_skew ORDER BY v DESC LIMIT 2 OFFSET 298
-- @expect
2
1

-- @query small_null_key_aggregate
SELECT k, count(*), sum(v) FROM sm_null_key GROUP BY k
-- @expect
NULL	10	55

-- @query small_null_key_join
SELECT count(*) FROM sm_null_key a JOIN sm_null_key b ON a.k = b.k
-- @expect
0

-- @query small_null_key_full_join
SELECT count(*), count(a.v), count(b.v) FROM sm_null_key a FULL JOIN sm_null_key b ON a.k = b.k
-- @expect
20	10	10

-- @query small_null_key_filter
SELECT count(*) FROM sm_null_key WHERE k IS NULL AND v > 5
-- @expect
5

-- @query small_many_count
SELECT count(*), sum(v) FROM sm_many
-- @expect
60	3660

-- @query small_many_range
SELECT count(*), min(id), max(id) FROM sm_many WHERE id BETWEEN 10 AND 19
-- @expect
10	10	19

-- @query small_many_self_join
SELECT count(*) FROM sm_many a JOIN sm_many b ON a.id = b.v
-- @expect
30

-- @query small_many_order ordered
SELECT id FROM sm_many ORDER BY v DESC LIMIT 3
-- @expect
60
59
58

-- @query small_many_not_in
SELECT count(*) FROM sm_many WHERE id NOT IN (SELECT v FROM sm_many)
-- @expect
30

-- @query small_wide_rows
SELECT * FROM sm_wide WHERE c1 = 20
-- @expect
20	21	22	23	24	25	26	27	28	29	30	31

-- @query small_wide_projection
SELECT sum(c12), sum(c3), min(c7) FROM sm_wide
-- @expect
430	250	7

-- @query small_no_from
SELECT 1, 'x', NULL, true
-- @expect
1	x	NULL	true

-- @query small_values_only
VALUES (1, 'a'), (2, NULL)
-- @expect
1	a
2	NULL

-- @query small_constant_filter_false
SELECT id FROM sm_many WHERE 1 = 0
-- @expect

-- @query small_constant_with_table
SELECT 'x' AS c, count(*) FROM sm_many WHERE 1 = 1
-- @expect
x	60

-- @query small_missing_table error
SELECT * FROM sm_does_not_exist

-- @query small_missing_column error
SELECT nope FROM sm_few

-- @query small_type_error error
SELECT id + make_array(1) FROM sm_few

-- @query small_syntax_error error
SELECT id FROM sm_few WHERE
