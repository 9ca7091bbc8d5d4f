-- Joins: every type, side, key kind and condition kind.

-- @table j_a partition_by=bucket(4, id)
CREATE TABLE j_a (id INT, k INT, v VARCHAR);
INSERT INTO j_a VALUES (1, 10, 'a1'), (2, 20, 'a2'), (3, NULL, 'a3'), (4, 20, NULL), (5, 50, 'a5'), (6, NULL, 'a6'), (7, 70, 'a7');

-- @table j_b partition_by=bucket(3, k)
CREATE TABLE j_b (id INT, k BIGINT, w VARCHAR);
INSERT INTO j_b VALUES (1, 10, 'b1'), (2, 20, 'b2'), (3, 20, 'b3'), (4, NULL, 'b4'), (5, 60, 'b5'), (6, 70, 'b6');

-- @table j_e partition_by=bucket(4, k)
CREATE TABLE j_e (id INT, k INT, w VARCHAR);

-- @table j_e2
CREATE TABLE j_e2 (id INT, k INT, w VARCHAR);

-- @table j_big partition_by=bucket(8, id)
CREATE TABLE j_big (id BIGINT, k BIGINT, v BIGINT);
INSERT INTO j_big SELECT value, value % 97, value * 3 FROM generate_series(1, 2000) AS g(value);

-- @table j_small
CREATE TABLE j_small (k BIGINT, name VARCHAR);
INSERT INTO j_small VALUES (0, 'zero'), (1, 'one'), (2, 'two'), (96, 'last'), (97, 'none'), (NULL, 'null');

-- @table j_str partition_by=s
CREATE TABLE j_str (s VARCHAR, n INT);
INSERT INTO j_str VALUES ('10', 1), ('20', 2), ('x', 3), (NULL, 4), ('', 5), ('A1', 6);

-- @table j_one
CREATE TABLE j_one (v BIGINT);
INSERT INTO j_one VALUES (1);

-- @query S01_left_join_constant_false
SELECT v FROM j_one LEFT JOIN (SELECT 1 AS k WHERE false) e ON v = k
-- @expect
1

-- @query S01_left_join_constant_false_both_columns
SELECT v, k FROM j_one LEFT JOIN (SELECT 1 AS k WHERE false) e ON v = k
-- @expect
1	NULL

-- @query S01_left_join_partitioned_constant_false
SELECT count(*), count(e.k) FROM j_big LEFT JOIN (SELECT 1 AS k WHERE false) e ON j_big.k = e.k
-- @expect
2000	0

-- @query S01_right_join_constant_false
SELECT v, k FROM (SELECT 1 AS k WHERE false) e RIGHT JOIN j_one ON v = k
-- @expect
1	NULL

-- @query S01_full_join_constant_false
SELECT v, k FROM j_one FULL JOIN (SELECT 1 AS k WHERE false) e ON v = k
-- @expect
1	NULL

-- @query S01_full_join_constant_false_other_side
SELECT count(*), count(a.id), count(e.k) FROM (SELECT 1 AS k WHERE false) e FULL JOIN j_a a ON a.k = e.k
-- @expect
7	7	0

-- @query S01_inner_join_constant_false
SELECT count(*) FROM j_big JOIN (SELECT 1 AS k WHERE false) e ON j_big.k = e.k
-- @expect
0

-- @query S01_left_join_filtered_to_nothing
SELECT v, id FROM j_one LEFT JOIN (SELECT id FROM j_big WHERE id < 0) e ON v = e.id
-- @expect
1	NULL

-- @query S01_left_join_constant_one_row
SELECT v, k FROM j_one LEFT JOIN (SELECT 1 AS k) e ON v = k
-- @expect
1	1

-- @query S01_cross_join_constant_false
SELECT count(*) FROM j_big CROSS JOIN (SELECT 1 AS k WHERE false) e
-- @expect
0

-- @query S01_left_join_on_false
SELECT count(*), count(b.id) FROM j_a a LEFT JOIN j_b b ON false
-- @expect
7	0

-- @query S01_full_join_on_false
SELECT count(*), count(a.id), count(b.id) FROM j_a a FULL JOIN j_b b ON false
-- @expect
13	7	6

-- @query S01_left_join_on_true
SELECT count(*) FROM j_a a LEFT JOIN j_b b ON true
-- @expect
42

-- @query S01_left_join_on_true_empty_right
SELECT count(*), count(e.id) FROM j_a a LEFT JOIN j_e e ON true
-- @expect
7	0

-- @query join_inner_equi
SELECT a.id, a.k, b.id, b.k, b.w FROM j_a a JOIN j_b b ON a.k = b.k
-- @expect
1	10	1	10	b1
2	20	2	20	b2
2	20	3	20	b3
4	20	2	20	b2
4	20	3	20	b3
7	70	6	70	b6

-- @query join_left_equi
SELECT a.id, a.k, b.id, b.k, b.w FROM j_a a LEFT JOIN j_b b ON a.k = b.k
-- @expect
1	10	1	10	b1
2	20	2	20	b2
2	20	3	20	b3
3	NULL	NULL	NULL	NULL
4	20	2	20	b2
4	20	3	20	b3
5	50	NULL	NULL	NULL
6	NULL	NULL	NULL	NULL
7	70	6	70	b6

-- @query join_right_equi
SELECT a.id, a.k, b.id, b.k, b.w FROM j_a a RIGHT JOIN j_b b ON a.k = b.k
-- @expect
1	10	1	10	b1
2	20	2	20	b2
2	20	3	20	b3
4	20	2	20	b2
4	20	3	20	b3
7	70	6	70	b6
NULL	NULL	4	NULL	b4
NULL	NULL	5	60	b5

-- @query join_full_equi
SELECT a.id, a.k, b.id, b.k, b.w FROM j_a a FULL JOIN j_b b ON a.k = b.k
-- @expect
1	10	1	10	b1
2	20	2	20	b2
2	20	3	20	b3
3	NULL	NULL	NULL	NULL
4	20	2	20	b2
4	20	3	20	b3
5	50	NULL	NULL	NULL
6	NULL	NULL	NULL	NULL
7	70	6	70	b6
NULL	NULL	4	NULL	b4
NULL	NULL	5	60	b5

-- @query join_semi_equi
SELECT a.id, a.v FROM j_a a WHERE EXISTS (SELECT 1 FROM j_b b WHERE a.k = b.k)
-- @expect
1	a1
2	a2
4	NULL
7	a7

-- @query join_anti_equi
SELECT a.id, a.v FROM j_a a WHERE NOT EXISTS (SELECT 1 FROM j_b b WHERE a.k = b.k)
-- @expect
3	a3
5	a5
6	a6

-- @query join_inner_equi_id
SELECT a.id, a.k, b.id, b.k, b.w FROM j_a a JOIN j_b b ON a.id = b.id
-- @expect
1	10	1	10	b1
2	20	2	20	b2
3	NULL	3	20	b3
4	20	4	NULL	b4
5	50	5	60	b5
6	NULL	6	70	b6

-- @query join_left_equi_id
SELECT a.id, a.k, b.id, b.k, b.w FROM j_a a LEFT JOIN j_b b ON a.id = b.id
-- @expect
1	10	1	10	b1
2	20	2	20	b2
3	NULL	3	20	b3
4	20	4	NULL	b4
5	50	5	60	b5
6	NULL	6	70	b6
7	70	NULL	NULL	NULL

-- @query join_right_equi_id
SELECT a.id, a.k, b.id, b.k, b.w FROM j_a a RIGHT JOIN j_b b ON a.id = b.id
-- @expect
1	10	1	10	b1
2	20	2	20	b2
3	NULL	3	20	b3
4	20	4	NULL	b4
5	50	5	60	b5
6	NULL	6	70	b6

-- @query join_full_equi_id
SELECT a.id, a.k, b.id, b.k, b.w FROM j_a a FULL JOIN j_b b ON a.id = b.id
-- @expect
1	10	1	10	b1
2	20	2	20	b2
3	NULL	3	20	b3
4	20	4	NULL	b4
5	50	5	60	b5
6	NULL	6	70	b6
7	70	NULL	NULL	NULL

-- @query join_semi_equi_id
SELECT a.id, a.v FROM j_a a WHERE EXISTS (SELECT 1 FROM j_b b WHERE a.id = b.id)
-- @expect
1	a1
2	a2
3	a3
4	NULL
5	a5
6	a6

-- @query join_anti_equi_id
SELECT a.id, a.v FROM j_a a WHERE NOT EXISTS (SELECT 1 FROM j_b b WHERE a.id = b.id)
-- @expect
7	a7

-- @query join_inner_two_keys
SELECT a.id, a.k, b.id, b.k, b.w FROM j_a a JOIN j_b b ON a.k = b.k AND a.id = b.id
-- @expect
1	10	1	10	b1
2	20	2	20	b2

-- @query join_left_two_keys
SELECT a.id, a.k, b.id, b.k, b.w FROM j_a a LEFT JOIN j_b b ON a.k = b.k AND a.id = b.id
-- @expect
1	10	1	10	b1
2	20	2	20	b2
3	NULL	NULL	NULL	NULL
4	20	NULL	NULL	NULL
5	50	NULL	NULL	NULL
6	NULL	NULL	NULL	NULL
7	70	NULL	NULL	NULL

-- @query join_right_two_keys
SELECT a.id, a.k, b.id, b.k, b.w FROM j_a a RIGHT JOIN j_b b ON a.k = b.k AND a.id = b.id
-- @expect
1	10	1	10	b1
2	20	2	20	b2
NULL	NULL	3	20	b3
NULL	NULL	4	NULL	b4
NULL	NULL	5	60	b5
NULL	NULL	6	70	b6

-- @query join_full_two_keys
SELECT a.id, a.k, b.id, b.k, b.w FROM j_a a FULL JOIN j_b b ON a.k = b.k AND a.id = b.id
-- @expect
1	10	1	10	b1
2	20	2	20	b2
3	NULL	NULL	NULL	NULL
4	20	NULL	NULL	NULL
5	50	NULL	NULL	NULL
6	NULL	NULL	NULL	NULL
7	70	NULL	NULL	NULL
NULL	NULL	3	20	b3
NULL	NULL	4	NULL	b4
NULL	NULL	5	60	b5
NULL	NULL	6	70	b6

-- @query join_semi_two_keys
SELECT a.id, a.v FROM j_a a WHERE EXISTS (SELECT 1 FROM j_b b WHERE a.k = b.k AND a.id = b.id)
-- @expect
1	a1
2	a2

-- @query join_anti_two_keys
SELECT a.id, a.v FROM j_a a WHERE NOT EXISTS (SELECT 1 FROM j_b b WHERE a.k = b.k AND a.id = b.id)
-- @expect
3	a3
4	NULL
5	a5
6	a6
7	a7

-- @query join_inner_mixed
SELECT a.id, a.k, b.id, b.k, b.w FROM j_a a JOIN j_b b ON a.k = b.k AND a.id < b.id
-- @expect
2	20	3	20	b3

-- @query join_left_mixed
SELECT a.id, a.k, b.id, b.k, b.w FROM j_a a LEFT JOIN j_b b ON a.k = b.k AND a.id < b.id
-- @expect
1	10	NULL	NULL	NULL
2	20	3	20	b3
3	NULL	NULL	NULL	NULL
4	20	NULL	NULL	NULL
5	50	NULL	NULL	NULL
6	NULL	NULL	NULL	NULL
7	70	NULL	NULL	NULL

-- @query join_right_mixed
SELECT a.id, a.k, b.id, b.k, b.w FROM j_a a RIGHT JOIN j_b b ON a.k = b.k AND a.id < b.id
-- @expect
2	20	3	20	b3
NULL	NULL	1	10	b1
NULL	NULL	2	20	b2
NULL	NULL	4	NULL	b4
NULL	NULL	5	60	b5
NULL	NULL	6	70	b6

-- @query join_full_mixed
SELECT a.id, a.k, b.id, b.k, b.w FROM j_a a FULL JOIN j_b b ON a.k = b.k AND a.id < b.id
-- @expect
1	10	NULL	NULL	NULL
2	20	3	20	b3
3	NULL	NULL	NULL	NULL
4	20	NULL	NULL	NULL
5	50	NULL	NULL	NULL
6	NULL	NULL	NULL	NULL
7	70	NULL	NULL	NULL
NULL	NULL	1	10	b1
NULL	NULL	2	20	b2
NULL	NULL	4	NULL	b4
NULL	NULL	5	60	b5
NULL	NULL	6	70	b6

-- @query join_semi_mixed
SELECT a.id, a.v FROM j_a a WHERE EXISTS (SELECT 1 FROM j_b b WHERE a.k = b.k AND a.id < b.id)
-- @expect
2	a2

-- @query join_anti_mixed
SELECT a.id, a.v FROM j_a a WHERE NOT EXISTS (SELECT 1 FROM j_b b WHERE a.k = b.k AND a.id < b.id)
-- @expect
1	a1
3	a3
4	NULL
5	a5
6	a6
7	a7

-- @query join_inner_non_equi
SELECT a.id, a.k, b.id, b.k, b.w FROM j_a a JOIN j_b b ON a.id < b.id AND a.k > b.k
-- @expect

-- @query join_left_non_equi
SELECT a.id, a.k, b.id, b.k, b.w FROM j_a a LEFT JOIN j_b b ON a.id < b.id AND a.k > b.k
-- @expect
1	10	NULL	NULL	NULL
2	20	NULL	NULL	NULL
3	NULL	NULL	NULL	NULL
4	20	NULL	NULL	NULL
5	50	NULL	NULL	NULL
6	NULL	NULL	NULL	NULL
7	70	NULL	NULL	NULL

-- @query join_right_non_equi
SELECT a.id, a.k, b.id, b.k, b.w FROM j_a a RIGHT JOIN j_b b ON a.id < b.id AND a.k > b.k
-- @expect
NULL	NULL	1	10	b1
NULL	NULL	2	20	b2
NULL	NULL	3	20	b3
NULL	NULL	4	NULL	b4
NULL	NULL	5	60	b5
NULL	NULL	6	70	b6

-- @query join_full_non_equi
SELECT a.id, a.k, b.id, b.k, b.w FROM j_a a FULL JOIN j_b b ON a.id < b.id AND a.k > b.k
-- @expect
1	10	NULL	NULL	NULL
2	20	NULL	NULL	NULL
3	NULL	NULL	NULL	NULL
4	20	NULL	NULL	NULL
5	50	NULL	NULL	NULL
6	NULL	NULL	NULL	NULL
7	70	NULL	NULL	NULL
NULL	NULL	1	10	b1
NULL	NULL	2	20	b2
NULL	NULL	3	20	b3
NULL	NULL	4	NULL	b4
NULL	NULL	5	60	b5
NULL	NULL	6	70	b6

-- @query join_semi_non_equi
SELECT a.id, a.v FROM j_a a WHERE EXISTS (SELECT 1 FROM j_b b WHERE a.id < b.id AND a.k > b.k)
-- @expect

-- @query join_anti_non_equi
SELECT a.id, a.v FROM j_a a WHERE NOT EXISTS (SELECT 1 FROM j_b b WHERE a.id < b.id AND a.k > b.k)
-- @expect
1	a1
2	a2
3	a3
4	NULL
5	a5
6	a6
7	a7

-- @query join_inner_expr
SELECT a.id, a.k, b.id, b.k, b.w FROM j_a a JOIN j_b b ON a.k + 10 = b.k
-- @expect
1	10	2	20	b2
1	10	3	20	b3
5	50	5	60	b5

-- @query join_left_expr
SELECT a.id, a.k, b.id, b.k, b.w FROM j_a a LEFT JOIN j_b b ON a.k + 10 = b.k
-- @expect
1	10	2	20	b2
1	10	3	20	b3
2	20	NULL	NULL	NULL
3	NULL	NULL	NULL	NULL
4	20	NULL	NULL	NULL
5	50	5	60	b5
6	NULL	NULL	NULL	NULL
7	70	NULL	NULL	NULL

-- @query join_right_expr
SELECT a.id, a.k, b.id, b.k, b.w FROM j_a a RIGHT JOIN j_b b ON a.k + 10 = b.k
-- @expect
1	10	2	20	b2
1	10	3	20	b3
5	50	5	60	b5
NULL	NULL	1	10	b1
NULL	NULL	4	NULL	b4
NULL	NULL	6	70	b6

-- @query join_full_expr
SELECT a.id, a.k, b.id, b.k, b.w FROM j_a a FULL JOIN j_b b ON a.k + 10 = b.k
-- @expect
1	10	2	20	b2
1	10	3	20	b3
2	20	NULL	NULL	NULL
3	NULL	NULL	NULL	NULL
4	20	NULL	NULL	NULL
5	50	5	60	b5
6	NULL	NULL	NULL	NULL
7	70	NULL	NULL	NULL
NULL	NULL	1	10	b1
NULL	NULL	4	NULL	b4
NULL	NULL	6	70	b6

-- @query join_semi_expr
SELECT a.id, a.v FROM j_a a WHERE EXISTS (SELECT 1 FROM j_b b WHERE a.k + 10 = b.k)
-- @expect
1	a1
5	a5

-- @query join_anti_expr
SELECT a.id, a.v FROM j_a a WHERE NOT EXISTS (SELECT 1 FROM j_b b WHERE a.k + 10 = b.k)
-- @expect
2	a2
3	a3
4	NULL
6	a6
7	a7

-- @query join_inner_null_safe
SELECT a.id, a.k, b.id, b.k, b.w FROM j_a a JOIN j_b b ON a.k IS NOT DISTINCT FROM b.k
-- @expect
1	10	1	10	b1
2	20	2	20	b2
2	20	3	20	b3
3	NULL	4	NULL	b4
4	20	2	20	b2
4	20	3	20	b3
6	NULL	4	NULL	b4
7	70	6	70	b6

-- @query join_left_null_safe
SELECT a.id, a.k, b.id, b.k, b.w FROM j_a a LEFT JOIN j_b b ON a.k IS NOT DISTINCT FROM b.k
-- @expect
1	10	1	10	b1
2	20	2	20	b2
2	20	3	20	b3
3	NULL	4	NULL	b4
4	20	2	20	b2
4	20	3	20	b3
5	50	NULL	NULL	NULL
6	NULL	4	NULL	b4
7	70	6	70	b6

-- @query join_right_null_safe
SELECT a.id, a.k, b.id, b.k, b.w FROM j_a a RIGHT JOIN j_b b ON a.k IS NOT DISTINCT FROM b.k
-- @expect
1	10	1	10	b1
2	20	2	20	b2
2	20	3	20	b3
3	NULL	4	NULL	b4
4	20	2	20	b2
4	20	3	20	b3
6	NULL	4	NULL	b4
7	70	6	70	b6
NULL	NULL	5	60	b5

-- @query join_full_null_safe
SELECT a.id, a.k, b.id, b.k, b.w FROM j_a a FULL JOIN j_b b ON a.k IS NOT DISTINCT FROM b.k
-- @expect
1	10	1	10	b1
2	20	2	20	b2
2	20	3	20	b3
3	NULL	4	NULL	b4
4	20	2	20	b2
4	20	3	20	b3
5	50	NULL	NULL	NULL
6	NULL	4	NULL	b4
7	70	6	70	b6
NULL	NULL	5	60	b5

-- @query join_semi_null_safe
SELECT a.id, a.v FROM j_a a WHERE EXISTS (SELECT 1 FROM j_b b WHERE a.k IS NOT DISTINCT FROM b.k)
-- @expect
1	a1
2	a2
3	a3
4	NULL
6	a6
7	a7

-- @query join_anti_null_safe
SELECT a.id, a.v FROM j_a a WHERE NOT EXISTS (SELECT 1 FROM j_b b WHERE a.k IS NOT DISTINCT FROM b.k)
-- @expect
5	a5

-- @query join_inner_one_side_filter
SELECT a.id, a.k, b.id, b.k, b.w FROM j_a a JOIN j_b b ON a.k = b.k AND a.id > 2
-- @expect
4	20	2	20	b2
4	20	3	20	b3
7	70	6	70	b6

-- @query join_left_one_side_filter
SELECT a.id, a.k, b.id, b.k, b.w FROM j_a a LEFT JOIN j_b b ON a.k = b.k AND a.id > 2
-- @expect
1	10	NULL	NULL	NULL
2	20	NULL	NULL	NULL
3	NULL	NULL	NULL	NULL
4	20	2	20	b2
4	20	3	20	b3
5	50	NULL	NULL	NULL
6	NULL	NULL	NULL	NULL
7	70	6	70	b6

-- @query join_right_one_side_filter
SELECT a.id, a.k, b.id, b.k, b.w FROM j_a a RIGHT JOIN j_b b ON a.k = b.k AND a.id > 2
-- @expect
4	20	2	20	b2
4	20	3	20	b3
7	70	6	70	b6
NULL	NULL	1	10	b1
NULL	NULL	4	NULL	b4
NULL	NULL	5	60	b5

-- @query join_full_one_side_filter
SELECT a.id, a.k, b.id, b.k, b.w FROM j_a a FULL JOIN j_b b ON a.k = b.k AND a.id > 2
-- @expect
1	10	NULL	NULL	NULL
2	20	NULL	NULL	NULL
3	NULL	NULL	NULL	NULL
4	20	2	20	b2
4	20	3	20	b3
5	50	NULL	NULL	NULL
6	NULL	NULL	NULL	NULL
7	70	6	70	b6
NULL	NULL	1	10	b1
NULL	NULL	4	NULL	b4
NULL	NULL	5	60	b5

-- @query join_semi_one_side_filter
SELECT a.id, a.v FROM j_a a WHERE EXISTS (SELECT 1 FROM j_b b WHERE a.k = b.k AND a.id > 2)
-- @expect
4	NULL
7	a7

-- @query join_anti_one_side_filter
SELECT a.id, a.v FROM j_a a WHERE NOT EXISTS (SELECT 1 FROM j_b b WHERE a.k = b.k AND a.id > 2)
-- @expect
1	a1
2	a2
3	a3
5	a5
6	a6

-- @query join_inner_other_side_filter
SELECT a.id, a.k, b.id, b.k, b.w FROM j_a a JOIN j_b b ON a.k = b.k AND b.w <> 'b2'
-- @expect
1	10	1	10	b1
2	20	3	20	b3
4	20	3	20	b3
7	70	6	70	b6

-- @query join_left_other_side_filter
SELECT a.id, a.k, b.id, b.k, b.w FROM j_a a LEFT JOIN j_b b ON a.k = b.k AND b.w <> 'b2'
-- @expect
1	10	1	10	b1
2	20	3	20	b3
3	NULL	NULL	NULL	NULL
4	20	3	20	b3
5	50	NULL	NULL	NULL
6	NULL	NULL	NULL	NULL
7	70	6	70	b6

-- @query join_right_other_side_filter
SELECT a.id, a.k, b.id, b.k, b.w FROM j_a a RIGHT JOIN j_b b ON a.k = b.k AND b.w <> 'b2'
-- @expect
1	10	1	10	b1
2	20	3	20	b3
4	20	3	20	b3
7	70	6	70	b6
NULL	NULL	2	20	b2
NULL	NULL	4	NULL	b4
NULL	NULL	5	60	b5

-- @query join_full_other_side_filter
SELECT a.id, a.k, b.id, b.k, b.w FROM j_a a FULL JOIN j_b b ON a.k = b.k AND b.w <> 'b2'
-- @expect
1	10	1	10	b1
2	20	3	20	b3
3	NULL	NULL	NULL	NULL
4	20	3	20	b3
5	50	NULL	NULL	NULL
6	NULL	NULL	NULL	NULL
7	70	6	70	b6
NULL	NULL	2	20	b2
NULL	NULL	4	NULL	b4
NULL	NULL	5	60	b5

-- @query join_semi_other_side_filter
SELECT a.id, a.v FROM j_a a WHERE EXISTS (SELECT 1 FROM j_b b WHERE a.k = b.k AND b.w <> 'b2')
-- @expect
1	a1
2	a2
4	NULL
7	a7

-- @query join_anti_other_side_filter
SELECT a.id, a.v FROM j_a a WHERE NOT EXISTS (SELECT 1 FROM j_b b WHERE a.k = b.k AND b.w <> 'b2')
-- @expect
3	a3
5	a5
6	a6

-- @query join_inner_or_cond
SELECT a.id, a.k, b.id, b.k, b.w FROM j_a a JOIN j_b b ON a.id = b.id OR a.k = b.k
-- @expect
1	10	1	10	b1
2	20	2	20	b2
2	20	3	20	b3
3	NULL	3	20	b3
4	20	2	20	b2
4	20	3	20	b3
4	20	4	NULL	b4
5	50	5	60	b5
6	NULL	6	70	b6
7	70	6	70	b6

-- @query join_left_or_cond
SELECT a.id, a.k, b.id, b.k, b.w FROM j_a a LEFT JOIN j_b b ON a.id = b.id OR a.k = b.k
-- @expect
1	10	1	10	b1
2	20	2	20	b2
2	20	3	20	b3
3	NULL	3	20	b3
4	20	2	20	b2
4	20	3	20	b3
4	20	4	NULL	b4
5	50	5	60	b5
6	NULL	6	70	b6
7	70	6	70	b6

-- @query join_right_or_cond
SELECT a.id, a.k, b.id, b.k, b.w FROM j_a a RIGHT JOIN j_b b ON a.id = b.id OR a.k = b.k
-- @expect
1	10	1	10	b1
2	20	2	20	b2
2	20	3	20	b3
3	NULL	3	20	b3
4	20	2	20	b2
4	20	3	20	b3
4	20	4	NULL	b4
5	50	5	60	b5
6	NULL	6	70	b6
7	70	6	70	b6

-- @query join_full_or_cond
SELECT a.id, a.k, b.id, b.k, b.w FROM j_a a FULL JOIN j_b b ON a.id = b.id OR a.k = b.k
-- @expect
1	10	1	10	b1
2	20	2	20	b2
2	20	3	20	b3
3	NULL	3	20	b3
4	20	2	20	b2
4	20	3	20	b3
4	20	4	NULL	b4
5	50	5	60	b5
6	NULL	6	70	b6
7	70	6	70	b6

-- @query join_semi_or_cond
SELECT a.id, a.v FROM j_a a WHERE EXISTS (SELECT 1 FROM j_b b WHERE a.id = b.id OR a.k = b.k)
-- @expect
1	a1
2	a2
3	a3
4	NULL
5	a5
6	a6
7	a7

-- @query join_anti_or_cond
SELECT a.id, a.v FROM j_a a WHERE NOT EXISTS (SELECT 1 FROM j_b b WHERE a.id = b.id OR a.k = b.k)
-- @expect

-- @query join_inner_string_expr
SELECT a.id, a.k, b.id, b.k, b.w FROM j_a a JOIN j_b b ON substr(a.v, 2) = substr(b.w, 2)
-- @expect
1	10	1	10	b1
2	20	2	20	b2
3	NULL	3	20	b3
5	50	5	60	b5
6	NULL	6	70	b6

-- @query join_left_string_expr
SELECT a.id, a.k, b.id, b.k, b.w FROM j_a a LEFT JOIN j_b b ON substr(a.v, 2) = substr(b.w, 2)
-- @expect
1	10	1	10	b1
2	20	2	20	b2
3	NULL	3	20	b3
4	20	NULL	NULL	NULL
5	50	5	60	b5
6	NULL	6	70	b6
7	70	NULL	NULL	NULL

-- @query join_right_string_expr
SELECT a.id, a.k, b.id, b.k, b.w FROM j_a a RIGHT JOIN j_b b ON substr(a.v, 2) = substr(b.w, 2)
-- @expect
1	10	1	10	b1
2	20	2	20	b2
3	NULL	3	20	b3
5	50	5	60	b5
6	NULL	6	70	b6
NULL	NULL	4	NULL	b4

-- @query join_full_string_expr
SELECT a.id, a.k, b.id, b.k, b.w FROM j_a a FULL JOIN j_b b ON substr(a.v, 2) = substr(b.w, 2)
-- @expect
1	10	1	10	b1
2	20	2	20	b2
3	NULL	3	20	b3
4	20	NULL	NULL	NULL
5	50	5	60	b5
6	NULL	6	70	b6
7	70	NULL	NULL	NULL
NULL	NULL	4	NULL	b4

-- @query join_semi_string_expr
SELECT a.id, a.v FROM j_a a WHERE EXISTS (SELECT 1 FROM j_b b WHERE substr(a.v, 2) = substr(b.w, 2))
-- @expect
1	a1
2	a2
3	a3
5	a5
6	a6

-- @query join_anti_string_expr
SELECT a.id, a.v FROM j_a a WHERE NOT EXISTS (SELECT 1 FROM j_b b WHERE substr(a.v, 2) = substr(b.w, 2))
-- @expect
4	NULL
7	a7

-- @query join_inner_empty_right
SELECT a.id, b.id, b.w FROM j_a a JOIN j_e b ON a.k = b.k
-- @expect

-- @query join_left_empty_right
SELECT a.id, b.id, b.w FROM j_a a LEFT JOIN j_e b ON a.k = b.k
-- @expect
1	NULL	NULL
2	NULL	NULL
3	NULL	NULL
4	NULL	NULL
5	NULL	NULL
6	NULL	NULL
7	NULL	NULL

-- @query join_right_empty_right
SELECT a.id, b.id, b.w FROM j_a a RIGHT JOIN j_e b ON a.k = b.k
-- @expect

-- @query join_full_empty_right
SELECT a.id, b.id, b.w FROM j_a a FULL JOIN j_e b ON a.k = b.k
-- @expect
1	NULL	NULL
2	NULL	NULL
3	NULL	NULL
4	NULL	NULL
5	NULL	NULL
6	NULL	NULL
7	NULL	NULL

-- @query join_inner_empty_left
SELECT a.id, b.id, b.w FROM j_e a JOIN j_b b ON a.k = b.k
-- @expect

-- @query join_left_empty_left
SELECT a.id, b.id, b.w FROM j_e a LEFT JOIN j_b b ON a.k = b.k
-- @expect

-- @query join_right_empty_left
SELECT a.id, b.id, b.w FROM j_e a RIGHT JOIN j_b b ON a.k = b.k
-- @expect
NULL	1	b1
NULL	2	b2
NULL	3	b3
NULL	4	b4
NULL	5	b5
NULL	6	b6

-- @query join_full_empty_left
SELECT a.id, b.id, b.w FROM j_e a FULL JOIN j_b b ON a.k = b.k
-- @expect
NULL	1	b1
NULL	2	b2
NULL	3	b3
NULL	4	b4
NULL	5	b5
NULL	6	b6

-- @query join_inner_empty_both
SELECT a.id, b.id, b.w FROM j_e a JOIN j_e2 b ON a.k = b.k
-- @expect

-- @query join_left_empty_both
SELECT a.id, b.id, b.w FROM j_e a LEFT JOIN j_e2 b ON a.k = b.k
-- @expect

-- @query join_right_empty_both
SELECT a.id, b.id, b.w FROM j_e a RIGHT JOIN j_e2 b ON a.k = b.k
-- @expect

-- @query join_full_empty_both
SELECT a.id, b.id, b.w FROM j_e a FULL JOIN j_e2 b ON a.k = b.k
-- @expect

-- @query join_inner_empty_right_unpartitioned
SELECT a.id, b.id, b.w FROM j_a a JOIN j_e2 b ON a.k = b.k
-- @expect

-- @query join_left_empty_right_unpartitioned
SELECT a.id, b.id, b.w FROM j_a a LEFT JOIN j_e2 b ON a.k = b.k
-- @expect
1	NULL	NULL
2	NULL	NULL
3	NULL	NULL
4	NULL	NULL
5	NULL	NULL
6	NULL	NULL
7	NULL	NULL

-- @query join_right_empty_right_unpartitioned
SELECT a.id, b.id, b.w FROM j_a a RIGHT JOIN j_e2 b ON a.k = b.k
-- @expect

-- @query join_full_empty_right_unpartitioned
SELECT a.id, b.id, b.w FROM j_a a FULL JOIN j_e2 b ON a.k = b.k
-- @expect
1	NULL	NULL
2	NULL	NULL
3	NULL	NULL
4	NULL	NULL
5	NULL	NULL
6	NULL	NULL
7	NULL	NULL

-- @query join_semi_empty_right
SELECT a.id FROM j_a a WHERE a.k IN (SELECT b.k FROM j_e b)
-- @expect

-- @query join_anti_empty_right
SELECT a.id FROM j_a a WHERE a.k NOT IN (SELECT b.k FROM j_e b)
-- @expect
1
2
3
4
5
6
7

-- @query join_cross_empty_right
SELECT count(*) FROM j_a a CROSS JOIN j_e b
-- @expect
0

-- @query join_semi_empty_left
SELECT a.id FROM j_e a WHERE a.k IN (SELECT b.k FROM j_b b)
-- @expect

-- @query join_anti_empty_left
SELECT a.id FROM j_e a WHERE a.k NOT IN (SELECT b.k FROM j_b b)
-- @expect

-- @query join_cross_empty_left
SELECT count(*) FROM j_e a CROSS JOIN j_b b
-- @expect
0

-- @query join_semi_empty_both
SELECT a.id FROM j_e a WHERE a.k IN (SELECT b.k FROM j_e2 b)
-- @expect

-- @query join_anti_empty_both
SELECT a.id FROM j_e a WHERE a.k NOT IN (SELECT b.k FROM j_e2 b)
-- @expect

-- @query join_cross_empty_both
SELECT count(*) FROM j_e a CROSS JOIN j_e2 b
-- @expect
0

-- @query join_inner_small_right
SELECT count(*), count(a.k), count(b.k), sum(a.k), sum(b.k), count(DISTINCT b.k) FROM j_big a JOIN j_small b ON a.k = b.k
-- @expect
82	82	82	1983	1983	4

-- @query join_left_small_right
SELECT count(*), count(a.k), count(b.k), sum(a.k), sum(b.k), count(DISTINCT b.k) FROM j_big a LEFT JOIN j_small b ON a.k = b.k
-- @expect
2000	2000	82	94950	1983	4

-- @query join_right_small_right
SELECT count(*), count(a.k), count(b.k), sum(a.k), sum(b.k), count(DISTINCT b.k) FROM j_big a RIGHT JOIN j_small b ON a.k = b.k
-- @expect
84	82	83	1983	2080	5

-- @query join_full_small_right
SELECT count(*), count(a.k), count(b.k), sum(a.k), sum(b.k), count(DISTINCT b.k) FROM j_big a FULL JOIN j_small b ON a.k = b.k
-- @expect
2002	2000	83	94950	2080	5

-- @query join_semi_small_right
SELECT count(*), min(a.k), max(a.k) FROM j_big a WHERE a.k IN (SELECT b.k FROM j_small b)
-- @expect
82	0	96

-- @query join_anti_small_right
SELECT count(*), min(a.k), max(a.k) FROM j_big a WHERE NOT EXISTS (SELECT 1 FROM j_small b WHERE a.k = b.k)
-- @expect
1918	3	95

-- @query join_inner_small_left
SELECT count(*), count(a.k), count(b.k), sum(a.k), sum(b.k), count(DISTINCT b.k) FROM j_small a JOIN j_big b ON a.k = b.k
-- @expect
82	82	82	1983	1983	4

-- @query join_left_small_left
SELECT count(*), count(a.k), count(b.k), sum(a.k), sum(b.k), count(DISTINCT b.k) FROM j_small a LEFT JOIN j_big b ON a.k = b.k
-- @expect
84	83	82	2080	1983	4

-- @query join_right_small_left
SELECT count(*), count(a.k), count(b.k), sum(a.k), sum(b.k), count(DISTINCT b.k) FROM j_small a RIGHT JOIN j_big b ON a.k = b.k
-- @expect
2000	82	2000	1983	94950	97

-- @query join_full_small_left
SELECT count(*), count(a.k), count(b.k), sum(a.k), sum(b.k), count(DISTINCT b.k) FROM j_small a FULL JOIN j_big b ON a.k = b.k
-- @expect
2002	83	2000	2080	94950	97

-- @query join_semi_small_left
SELECT count(*), min(a.k), max(a.k) FROM j_small a WHERE a.k IN (SELECT b.k FROM j_big b)
-- @expect
4	0	96

-- @query join_anti_small_left
SELECT count(*), min(a.k), max(a.k) FROM j_small a WHERE NOT EXISTS (SELECT 1 FROM j_big b WHERE a.k = b.k)
-- @expect
2	97	97

-- @query join_cross rows=42
SELECT a.id, b.id FROM j_a a CROSS JOIN j_b b

-- @query join_comma_where
SELECT a.id, b.w FROM j_a a, j_b b WHERE a.k = b.k AND b.w LIKE 'b%'
-- @expect
1	b1
2	b2
2	b3
4	b2
4	b3
7	b6

-- @query join_self
SELECT x.id, y.id FROM j_a x JOIN j_a y ON x.k = y.k WHERE x.id <= y.id
-- @expect
1	1
2	2
2	4
4	4
5	5
7	7

-- @query join_self_big
SELECT count(*), sum(x.id), sum(y.v) FROM j_big x JOIN j_big y ON x.id = y.v
-- @expect
666	666333	666333

-- @query join_self_left_shifted
SELECT count(*), count(y.id) FROM j_big x LEFT JOIN j_big y ON x.id = y.id + 1
-- @expect
2000	1999

-- @query join_natural
SELECT count(*) FROM j_b NATURAL JOIN j_a
-- @expect
2

-- @query join_using_one
SELECT k, a.id, b.w FROM j_a a JOIN j_b b USING (k)
-- @expect
10	1	b1
20	2	b2
20	2	b3
20	4	b2
20	4	b3
70	7	b6

-- @query join_using_two
SELECT id, k, v, w FROM j_a JOIN j_b USING (id, k)
-- @expect
1	10	a1	b1
2	20	a2	b2

-- The engine takes the merged column of a FULL JOIN ... USING from the left side, where rows of the right side have NULL.

-- @query join_full_using expect_only
SELECT k, a.id, b.id FROM j_a a FULL JOIN j_b b USING (k)
-- @expect
10	1	1
20	2	2
20	2	3
20	4	2
20	4	3
50	5	NULL
60	NULL	5
70	7	6
NULL	3	NULL
NULL	6	NULL
NULL	NULL	4

-- @query join_right_using expect_only
SELECT k, a.id, b.id FROM j_a a RIGHT JOIN j_b b USING (k)
-- @expect
10	1	1
20	2	2
20	2	3
20	4	2
20	4	3
60	NULL	5
70	7	6
NULL	NULL	4

-- @query join_full_natural expect_only
SELECT count(*) FROM j_a NATURAL FULL JOIN j_b
-- @expect
11

-- @query join_left_using_coalesced
SELECT id, v, w FROM j_a LEFT JOIN j_b USING (id)
-- @expect
1	a1	b1
2	a2	b2
3	a3	b3
4	NULL	b4
5	a5	b5
6	a6	b6
7	a7	NULL

-- @query join_int_with_string_cast
SELECT a.id, s.n FROM j_a a JOIN j_str s ON CAST(a.k AS VARCHAR) = s.s
-- @expect
1	1
2	2
4	2

-- @query join_case_folded_strings
SELECT a.id, s.n FROM j_a a JOIN j_str s ON upper(a.v) = upper(s.s)
-- @expect
1	6

-- @query join_int_with_bigint
SELECT a.id, b.id FROM j_a a JOIN j_big b ON a.k = b.id
-- @expect
1	10
2	20
4	20
5	50
7	70

-- @query join_int_with_double
SELECT a.id, b.id FROM j_a a JOIN (SELECT id, CAST(k AS DOUBLE) AS k FROM j_b) b ON a.k = b.k
-- @expect
1	1
2	2
2	3
4	2
4	3
7	6

-- @query join_three_tables
SELECT a.id, b.w, c.v FROM j_a a JOIN j_b b ON a.k = b.k JOIN j_big c ON c.id = b.k
-- @expect
1	b1	30
2	b2	60
2	b3	60
4	b2	60
4	b3	60
7	b6	210

-- @query join_three_left_chain
SELECT a.id, b.id, e.id FROM j_a a LEFT JOIN j_b b ON a.k = b.k LEFT JOIN j_e e ON e.id = b.id
-- @expect
1	1	NULL
2	2	NULL
2	3	NULL
3	NULL	NULL
4	2	NULL
4	3	NULL
5	NULL	NULL
6	NULL	NULL
7	6	NULL

-- @query join_full_of_full
SELECT a.id, b.id, s.n FROM j_a a FULL JOIN j_b b ON a.k = b.k FULL JOIN j_str s ON s.n = b.id
-- @expect
1	1	1
2	2	2
2	3	3
3	NULL	NULL
4	2	2
4	3	3
5	NULL	NULL
6	NULL	NULL
7	6	6
NULL	4	4
NULL	5	5

-- @query join_left_then_inner_on_null_side
SELECT a.id, b.id, s.n FROM j_a a LEFT JOIN j_b b ON a.k = b.k JOIN j_str s ON s.n = b.id
-- @expect
1	1	1
2	2	2
2	3	3
4	2	2
4	3	3
7	6	6

-- @query join_left_where_is_null
SELECT a.id FROM j_a a LEFT JOIN j_b b ON a.k = b.k WHERE b.id IS NULL
-- @expect
3
5
6

-- @query join_left_condition_on_left_only
SELECT a.id, b.id FROM j_a a LEFT JOIN j_b b ON a.id = 1
-- @expect
1	1
1	2
1	3
1	4
1	5
1	6
2	NULL
3	NULL
4	NULL
5	NULL
6	NULL
7	NULL

-- @query join_full_condition_on_one_side_only
SELECT a.id, b.id FROM j_a a FULL JOIN j_b b ON a.id = 1
-- @expect
1	1
1	2
1	3
1	4
1	5
1	6
2	NULL
3	NULL
4	NULL
5	NULL
6	NULL
7	NULL

-- @query join_left_semi_keyword
SELECT a.id FROM j_a a LEFT SEMI JOIN j_b b ON a.k = b.k
-- @expect
1
2
4
7

-- @query join_left_anti_keyword
SELECT a.id FROM j_a a LEFT ANTI JOIN j_b b ON a.k = b.k
-- @expect
3
5
6

-- @query join_right_semi_keyword
SELECT b.id FROM j_a a RIGHT SEMI JOIN j_b b ON a.k = b.k
-- @expect
1
2
3
6

-- @query join_right_anti_keyword
SELECT b.id FROM j_a a RIGHT ANTI JOIN j_b b ON a.k = b.k
-- @expect
4
5

-- @query join_band
SELECT count(*) FROM j_big x JOIN j_small s ON x.k BETWEEN s.k AND s.k + 1
-- @expect
145

-- @query join_big_non_equi_full
SELECT count(*), count(a.id), count(b.id) FROM j_a a FULL JOIN j_big b ON a.id > b.id
-- @expect
2016	22	2015

-- @query join_with_duplicates_both_sides
SELECT x.k, count(*) FROM j_big x JOIN j_big y ON x.k = y.k WHERE x.k < 5 GROUP BY x.k
-- @expect
0	400
1	441
2	441
3	441
4	441

-- @query join_aggregates_both_sides
SELECT x.k, x.c, y.s FROM (SELECT k, count(*) AS c FROM j_big GROUP BY k) x JOIN (SELECT k, sum(v) AS s FROM j_big GROUP BY k) y ON x.k = y.k WHERE x.k < 10
-- @expect
0	20	61110
1	21	61173
2	21	61236
3	21	61299
4	21	61362
5	21	61425
6	21	61488
7	21	61551
8	21	61614
9	21	61677

-- @query join_distinct_side
SELECT a.id, d.k FROM j_a a LEFT JOIN (SELECT DISTINCT k FROM j_b) d ON a.k = d.k
-- @expect
1	10
2	20
3	NULL
4	20
5	NULL
6	NULL
7	70

-- @query join_limited_side
SELECT a.id, d.id FROM j_a a LEFT JOIN (SELECT id, k FROM j_b ORDER BY id LIMIT 2) d ON a.k = d.k
-- @expect
1	1
2	2
3	NULL
4	2
5	NULL
6	NULL
7	NULL

-- @query join_values_side
SELECT a.id, x.n FROM j_a a JOIN (VALUES (10, 'ten'), (20, 'twenty'), (NULL, 'none')) AS x(k, n) ON a.k = x.k
-- @expect
1	ten
2	twenty
4	twenty

-- @query join_values_side_outer
SELECT a.id, x.n FROM j_a a RIGHT JOIN (VALUES (10, 'ten'), (99, 'other')) AS x(k, n) ON a.k = x.k
-- @expect
1	ten
NULL	other

-- @query join_series_side
SELECT g.value, count(a.id) FROM generate_series(1, 9) AS g(value) LEFT JOIN j_a a ON a.id = g.value GROUP BY g.value
-- @expect
1	1
2	1
3	1
4	1
5	1
6	1
7	1
8	0
9	0

-- @query join_sort_merge_inner
-- @set datafusion.optimizer.prefer_hash_join=false
SELECT a.id, b.id FROM j_a a JOIN j_b b ON a.k = b.k
-- @expect
1	1
2	2
2	3
4	2
4	3
7	6

-- @query join_sort_merge_full
-- @set datafusion.optimizer.prefer_hash_join=false
SELECT a.id, b.id FROM j_a a FULL JOIN j_b b ON a.k = b.k AND a.id < b.id
-- @expect
1	NULL
2	3
3	NULL
4	NULL
5	NULL
6	NULL
7	NULL
NULL	1
NULL	2
NULL	4
NULL	5
NULL	6

-- @query join_sort_merge_big
-- @set datafusion.optimizer.prefer_hash_join=false
SELECT count(*), sum(y.v) FROM j_big x LEFT JOIN j_big y ON x.id = y.k
-- @expect
3884	5941890

-- @query join_ordered_output ordered
SELECT a.id, b.id FROM j_a a FULL JOIN j_b b ON a.k = b.k ORDER BY a.id NULLS LAST, b.id NULLS FIRST
-- @expect
1	1
2	2
2	3
3	NULL
4	2
4	3
5	NULL
6	NULL
7	6
NULL	4
NULL	5

-- @table j_v
CREATE TABLE j_v (v VARCHAR);
INSERT INTO j_v VALUES ('1'), ('2'), ('3'), ('4'), ('5');

-- @table j_sw partition_by=bucket(3, w)
CREATE TABLE j_sw (s VARCHAR, w VARCHAR);
INSERT INTO j_sw VALUES ('a', '2'), ('b', '4'), ('c', '9');

-- @query S07_non_equi_left_join_matches_nothing repeat=20
-- @set datafusion.execution.batch_size=2
SELECT count(*) FROM j_v t1 LEFT JOIN j_sw t2 ON t1.v < t2.w AND t2.s <= 'A'
-- @expect
5

-- @query S07_non_equi_left_join_rows
SELECT t1.v, t2.s FROM j_v t1 LEFT JOIN j_sw t2 ON t1.v < t2.w AND t2.s <= 'A'
-- @expect
1	NULL
2	NULL
3	NULL
4	NULL
5	NULL

-- @query S07_non_equi_left_join_some_match
SELECT t1.v, t2.s FROM j_v t1 LEFT JOIN j_sw t2 ON t1.v < t2.w AND t2.s <= 'b'
-- @expect
1	a
1	b
2	b
3	b
4	NULL
5	NULL

-- @query S07_non_equi_right_join
SELECT count(*), count(t1.v) FROM j_v t1 RIGHT JOIN j_sw t2 ON t1.v < t2.w AND t2.s <= 'A'
-- @expect
3	0

-- @query S07_non_equi_full_join repeat=5
SELECT count(*), count(t1.v), count(t2.w) FROM j_v t1 FULL JOIN j_sw t2 ON t1.v < t2.w AND t2.s <= 'A'
-- @expect
8	5	3

-- @query S07_non_equi_semi
SELECT count(*) FROM j_v t1 WHERE EXISTS (SELECT 1 FROM j_sw t2 WHERE t1.v < t2.w AND t2.s <= 'A')
-- @expect
0

-- @query S07_non_equi_anti
SELECT count(*) FROM j_v t1 WHERE NOT EXISTS (SELECT 1 FROM j_sw t2 WHERE t1.v < t2.w AND t2.s <= 'A')
-- @expect
5

-- @query S07_big_non_equi_left_join repeat=5
SELECT count(*), count(s.k) FROM j_big b LEFT JOIN j_small s ON b.id < s.k AND s.name > 'zzz'
-- @expect
2000	0
