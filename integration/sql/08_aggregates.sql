-- GROUP BY, aggregate functions, DISTINCT, FILTER, HAVING and ordered aggregates.

-- @table a_t partition_by=bucket(4, id)
CREATE TABLE a_t (id INT, g VARCHAR, x INT, y DOUBLE, b BOOLEAN);
INSERT INTO a_t VALUES (1, 'a', 1, 0.5, true), (2, 'a', 2, 1.5, false), (3, 'a', 2, NULL, NULL), (4, 'b', NULL, 2.0, true), (5, 'b', 4, 4.0, true), (6, NULL, 6, 8.0, false), (7, NULL, NULL, NULL, NULL), (8, 'c', NULL, NULL, NULL);

-- @table a_files partition_by=f
CREATE TABLE a_files (f INT, id BIGINT, v BIGINT);
INSERT INTO a_files SELECT 0, value, value * 10 FROM generate_series(1, 22) AS g(value);
INSERT INTO a_files SELECT 1, value, value * 10 FROM generate_series(23, 44) AS g(value);
INSERT INTO a_files SELECT 2, value, value * 10 FROM generate_series(45, 66) AS g(value);

-- @table a_e partition_by=bucket(4, id)
CREATE TABLE a_e (id INT, g VARCHAR, x INT, y DOUBLE);

-- @table a_big partition_by=bucket(6, id)
CREATE TABLE a_big (id BIGINT, g BIGINT, h BIGINT, s VARCHAR);
INSERT INTO a_big SELECT value, value % 13, value * value % 17, 's' || CAST(value % 29 AS VARCHAR) FROM generate_series(1, 3000) AS g(value);

-- @query S17_count
SELECT count(*) FROM a_files
-- @expect
66

-- @query S17_count_and_sum
SELECT count(*), sum(id), sum(v) FROM a_files
-- @expect
66	2211	22110

-- @query S17_max_per_group
SELECT f, max(id), count(*) FROM a_files GROUP BY f
-- @expect
0	22	22
1	44	22
2	66	22

-- @query S17_count_with_filter
SELECT count(*) FROM a_files WHERE v > 300
-- @expect
36

-- @query S17_count_one_partition
SELECT count(*), min(id), max(id) FROM a_files WHERE f = 1
-- @expect
22	23	44

-- @query S17_all_rows
SELECT count(*), count(DISTINCT id) FROM (SELECT * FROM a_files) q
-- @expect
66	66

-- @query S17_group_by_other_column
SELECT id % 2, count(*), sum(v) FROM a_files GROUP BY id % 2
-- @expect
0	33	11220
1	33	10890

-- @query S17_no_repeated_groups
SELECT count(*) FROM (SELECT id, count(*) AS c FROM a_files GROUP BY id) q WHERE c = 1
-- @expect
66

-- @query S17_self_join_count
SELECT count(*) FROM a_files x JOIN a_files y ON x.id = y.id
-- @expect
66

-- @query agg_all_functions
SELECT count(*), count(x), sum(x), min(x), max(x), avg(x) FROM a_t
-- @expect
8	5	15	1	6	3.0

-- @query agg_per_group
SELECT g, count(*), count(x), sum(x), min(x), max(x), avg(x) FROM a_t GROUP BY g
-- @expect
a	3	3	5	1	2	1.6666666666666667
b	2	1	4	4	4	4.0
c	1	0	NULL	NULL	NULL	NULL
NULL	2	1	6	6	6	6.0

-- @query agg_double
SELECT sum(y), min(y), max(y), avg(y), count(y) FROM a_t
-- @expect
16.0	0.5	8.0	3.2	5

-- @query agg_empty_table
SELECT count(*), count(x), sum(x), min(x), max(y), avg(y) FROM a_e
-- @expect
0	0	NULL	NULL	NULL	NULL

-- @query agg_empty_table_grouped
SELECT g, count(*), sum(x) FROM a_e GROUP BY g
-- @expect

-- @query agg_filtered_to_nothing
SELECT count(*), sum(x) FROM a_t WHERE id > 100
-- @expect
0	NULL

-- @query agg_all_null_column
SELECT count(x), sum(x), min(x), avg(x) FROM a_t WHERE x IS NULL
-- @expect
0	NULL	NULL	NULL

-- @query agg_count_distinct
SELECT count(DISTINCT x), count(DISTINCT g), count(DISTINCT b) FROM a_t
-- @expect
4	3	2

-- @query agg_count_distinct_grouped
SELECT g, count(DISTINCT x), count(x) FROM a_t GROUP BY g
-- @expect
a	2	3
b	1	1
c	0	0
NULL	1	1

-- @query agg_sum_distinct
SELECT sum(DISTINCT x), sum(x), avg(DISTINCT x) FROM a_t
-- @expect
13	15	3.25

-- @query agg_distinct_mixed_with_plain
SELECT g % 3, count(DISTINCT h), count(DISTINCT s), count(*), sum(id) FROM a_big GROUP BY g % 3
-- @expect
0	9	29	1153	1730653
1	9	29	924	1386462
2	9	29	923	1384385

-- @query agg_two_distincts_same_column
SELECT count(DISTINCT h), sum(DISTINCT h), min(h) FROM a_big
-- @expect
9	68	0

-- @query agg_count_distinct_two_columns_by_struct
SELECT count(*) FROM (SELECT DISTINCT g, h FROM a_big) q
-- @expect
117

-- @query agg_filter_clause
SELECT count(*) FILTER (WHERE x > 1), sum(x) FILTER (WHERE g = 'a'), count(*) FILTER (WHERE x IS NULL), sum(x) FILTER (WHERE false) FROM a_t
-- @expect
4	5	3	NULL

-- @query agg_filter_clause_grouped
SELECT g, count(*) FILTER (WHERE b), count(DISTINCT x) FILTER (WHERE x < 3) FROM a_t GROUP BY g
-- @expect
a	1	2
b	2	0
c	0	0
NULL	0	0

-- @query agg_having
SELECT g, count(*) FROM a_t GROUP BY g HAVING count(*) > 1
-- @expect
a	3
b	2
NULL	2

-- @query agg_having_without_group
SELECT sum(x) FROM a_t HAVING count(*) > 100
-- @expect

-- @query agg_having_other_aggregate
SELECT g FROM a_t GROUP BY g HAVING max(y) >= 4 AND min(x) > 3
-- @expect
b
NULL

-- @query agg_having_null
SELECT g FROM a_t GROUP BY g HAVING sum(x) IS NULL
-- @expect
c

-- @query agg_group_by_boolean
SELECT b, count(*), sum(x) FROM a_t GROUP BY b
-- @expect
true	3	5
false	2	8
NULL	3	2

-- @query agg_group_by_two
SELECT g, b, count(*) FROM a_t GROUP BY g, b
-- @expect
NULL	NULL	1
NULL	false	1
a	NULL	1
a	false	1
a	true	1
b	true	2
c	NULL	1

-- @query agg_group_by_expression
SELECT id % 3 AS m, count(*), sum(id) FROM a_t GROUP BY id % 3
-- @expect
0	2	9
1	3	12
2	3	15

-- @query agg_group_by_position_alias
SELECT coalesce(g, 'none') AS k, sum(x) FROM a_t GROUP BY 1
-- @expect
a	5
b	4
c	NULL
none	6

-- @query agg_group_by_bucket_key rows=49
SELECT id, count(*), sum(g) FROM a_big WHERE id < 50 GROUP BY id

-- @query agg_group_by_bucket_key_count
SELECT count(*), sum(c) FROM (SELECT id, count(*) AS c FROM a_big GROUP BY id) q
-- @expect
3000	3000

-- @query agg_group_by_double
SELECT y, count(*) FROM a_t GROUP BY y
-- @expect
0.5	1
1.5	1
2.0	1
4.0	1
8.0	1
NULL	3

-- @query agg_group_by_null_literal
SELECT NULL AS n, count(*) FROM a_t GROUP BY 1
-- @expect
NULL	8

-- @query agg_bool_and_or
SELECT g, bool_and(b), bool_or(b) FROM a_t GROUP BY g
-- @expect
a	false	true
b	true	true
c	NULL	NULL
NULL	false	false

-- @query agg_bit
SELECT bit_and(x), bit_or(x), bit_xor(x) FROM a_t
-- @expect
0	7	3

-- @query agg_array_agg_ordered
SELECT g, array_agg(id ORDER BY id DESC) FROM a_t GROUP BY g
-- @expect
a	[3, 2, 1]
b	[5, 4]
c	[8]
NULL	[7, 6]

-- @query agg_array_agg_ordered_by_other
SELECT array_agg(id ORDER BY y DESC NULLS LAST, id) FROM a_t
-- @expect
[6, 5, 4, 2, 1, 3, 7, 8]

-- @query agg_array_agg_big rows=13
SELECT g, array_agg(id ORDER BY id) FROM a_big WHERE id <= 60 GROUP BY g

-- @query agg_array_agg_distinct
SELECT array_agg(DISTINCT x ORDER BY x) FROM a_t WHERE x IS NOT NULL
-- @expect
[1, 2, 4, 6]

-- @query agg_string_agg_ordered
SELECT g, string_agg(CAST(id AS VARCHAR), ',' ORDER BY id) FROM a_t GROUP BY g
-- @expect
a	1,2,3
b	4,5
c	8
NULL	6,7

-- @query agg_string_agg_ordered_desc
SELECT string_agg(s, '' ORDER BY id DESC) FROM a_big WHERE id < 6
-- @expect
s5s4s3s2s1

-- @query agg_first_last_value_ordered
SELECT g, first_value(id ORDER BY id), last_value(id ORDER BY id) FROM a_t GROUP BY g
-- @expect
a	1	3
b	4	5
c	8	8
NULL	6	7

-- @query agg_nth_value_ordered
SELECT nth_value(id, 3 ORDER BY id) FROM a_t
-- @expect
3

-- @query agg_median
SELECT median(id), median(y) FROM a_t
-- @expect
4.5	2.0

-- @query agg_variance rows=1
SELECT var_pop(id), var_samp(id), stddev_pop(id - 5) FROM a_t

-- @query agg_variance_grouped rows=4
SELECT g, var_samp(id), stddev_pop(x) FROM a_t GROUP BY g

-- @query agg_variance_single_row
SELECT var_samp(x), var_pop(x) FROM a_t WHERE id = 1
-- @expect
NULL	0.0

-- @query agg_covariance
SELECT covar_pop(id, x), covar_samp(id, x) FROM a_t
-- @expect
3.2	4.0

-- @query agg_correlation
SELECT corr(id, id * 2 + 1) FROM a_t
-- @expect
1.0

-- @query agg_regression
SELECT regr_slope(id * 3 + 2, id), regr_intercept(id * 3 + 2, id), regr_count(x, id) FROM a_t
-- @expect
3.0	2.0	5

-- @query agg_percentile_exact
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY id) FROM a_t
-- @expect
4.5

-- @query agg_min_max_string
SELECT min(g), max(g), min(s), max(s) FROM a_t CROSS JOIN (SELECT s FROM a_big WHERE id < 30) q
-- @expect
a	c	s0	s9

-- @query agg_min_max_boolean
SELECT min(b), max(b) FROM a_t
-- @expect
false	true

-- @query agg_min_max_double_null_only
SELECT min(y), max(y) FROM a_t WHERE g = 'c'
-- @expect
NULL	NULL

-- @query agg_sum_of_expression
SELECT sum(x * 2 + coalesce(id, 0)), sum(CASE WHEN b THEN 1 ELSE 0 END) FROM a_t
-- @expect
47	3

-- @query agg_of_aggregate rows=1
SELECT avg(c), max(c), min(c) FROM (SELECT g, count(*) AS c FROM a_big GROUP BY g) q

-- @query agg_many_groups
SELECT count(*), sum(c), sum(m) FROM (SELECT g, h, s, count(*) AS c, max(id) AS m FROM a_big GROUP BY g, h, s) q
-- @expect
2386	3000	3926805

-- @query agg_grouped_by_string
SELECT s, count(*), min(id), max(id) FROM a_big GROUP BY s
-- @expect
s0	103	29	2987
s1	104	1	2988
s10	104	10	2997
s11	104	11	2998
s12	104	12	2999
s13	104	13	3000
s14	103	14	2972
s15	103	15	2973
s16	103	16	2974
s17	103	17	2975
s18	103	18	2976
s19	103	19	2977
s2	104	2	2989
s20	103	20	2978
s21	103	21	2979
s22	103	22	2980
s23	103	23	2981
s24	103	24	2982
s25	103	25	2983
s26	103	26	2984
s27	103	27	2985
s28	103	28	2986
s3	104	3	2990
s4	104	4	2991
s5	104	5	2992
s6	104	6	2993
s7	104	7	2994
s8	104	8	2995
s9	104	9	2996

-- @query agg_distinct_strings
SELECT count(DISTINCT s), min(s), max(s) FROM a_big
-- @expect
29	s0	s9

-- @query agg_join_then_group
SELECT a.g, count(*), sum(b.h) FROM a_t a JOIN a_big b ON a.id = b.id GROUP BY a.g
-- @expect
NULL	2	17
a	3	14
b	2	24
c	1	13

-- @query agg_group_then_join
SELECT a.g, q.c FROM a_t a JOIN (SELECT g, count(*) AS c FROM a_big GROUP BY g) q ON a.id = q.g
-- @expect
NULL	231
NULL	231
a	231
a	231
a	231
b	231
b	231
c	231

-- @query agg_semi_join_then_count
SELECT count(*) FROM a_big WHERE g IN (SELECT id FROM a_t) AND h > 3
-- @expect
1304

-- @query agg_literal_only
SELECT sum(1), count(1), max(5), min('x') FROM a_t
-- @expect
8	8	5	x

-- @query agg_literal_only_empty
SELECT sum(1), count(1), max(5) FROM a_e
-- @expect
NULL	0	NULL

-- @query agg_without_from
SELECT count(*), sum(3)
-- @expect
1	3

-- @query agg_select_distinct_aggregate
SELECT DISTINCT count(*) FROM a_big GROUP BY g
-- @expect
230
231

-- @query agg_order_by_aggregate ordered
SELECT g, count(*) AS c FROM a_big GROUP BY g ORDER BY c DESC, g LIMIT 4
-- @expect
1	231
2	231
3	231
4	231

-- @query agg_nested_distinct
SELECT count(*) FROM (SELECT DISTINCT h FROM (SELECT DISTINCT g, h FROM a_big) i) o
-- @expect
9

-- @query agg_union_then_group
SELECT k, count(*) FROM (SELECT g AS k FROM a_t UNION ALL SELECT g FROM a_t UNION ALL SELECT g FROM a_e) u GROUP BY k
-- @expect
a	6
b	4
c	2
NULL	4

-- @query agg_invalid_column_not_grouped error
SELECT g, x, count(*) FROM a_t GROUP BY g

-- @query agg_invalid_nested error
SELECT sum(count(*)) FROM a_t
