-- Recursive CTEs.

-- @table r_edge partition_by=bucket(4, src)
CREATE TABLE r_edge (src INT, dst INT);
INSERT INTO r_edge VALUES (1, 2), (1, 3), (2, 4), (3, 4), (4, 5), (6, 7), (7, 6), (9, 9);

-- @table r_emp partition_by=bucket(3, id)
CREATE TABLE r_emp (id INT, boss INT, name VARCHAR);
INSERT INTO r_emp VALUES (1, NULL, 'root'), (2, 1, 'a'), (3, 1, 'b'), (4, 2, 'aa'), (5, 2, 'ab'), (6, 4, 'aaa'), (7, 99, 'orphan');

-- @table r_empty partition_by=bucket(3, src)
CREATE TABLE r_empty (src INT, dst INT);

-- @table r_seed partition_by=n
CREATE TABLE r_seed (n INT);
INSERT INTO r_seed VALUES (1), (10), (20);

-- @query rec_pure
WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t WHERE n < 10) SELECT count(*), sum(n) FROM t
-- @expect
10	55

-- @query rec_pure_rows ordered
WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n * 2 FROM t WHERE n < 50) SELECT n FROM t ORDER BY n
-- @expect
1
2
4
8
16
32
64

-- @query rec_pure_two_columns ordered
WITH RECURSIVE f AS (SELECT 1 AS i, 0 AS a, 1 AS b UNION ALL SELECT i + 1, b, a + b FROM f WHERE i < 10) SELECT i, a FROM f ORDER BY i DESC LIMIT 3
-- @expect
10	34
9	21
8	13

-- @query rec_stops_at_once
WITH RECURSIVE t AS (SELECT 5 AS n UNION ALL SELECT n + 1 FROM t WHERE n < 5) SELECT n FROM t
-- @expect
5

-- @query rec_seeded_from_table
WITH RECURSIVE t AS (SELECT n FROM r_seed UNION ALL SELECT n + 1 FROM t WHERE n % 10 < 3) SELECT n FROM t
-- @expect
1
2
3
10
11
12
13
20
21
22
23

-- @query rec_seeded_from_filtered_table
WITH RECURSIVE t AS (SELECT n FROM r_seed WHERE n = 10 UNION ALL SELECT n + 1 FROM t WHERE n < 12) SELECT count(*), max(n) FROM t
-- @expect
3	12

-- @query rec_seeded_from_aggregate
WITH RECURSIVE t AS (SELECT max(n) AS n FROM r_seed UNION ALL SELECT n - 7 FROM t WHERE n > 7) SELECT n FROM t
-- @expect
20
13
6

-- @query rec_seed_empty
WITH RECURSIVE t AS (SELECT n FROM r_seed WHERE n < 0 UNION ALL SELECT n + 1 FROM t WHERE n < 12) SELECT count(*) FROM t
-- @expect
0

-- @query rec_term_joins_table
WITH RECURSIVE t AS (SELECT 1 AS node UNION ALL SELECT e.dst FROM t JOIN r_edge e ON t.node = e.src) SELECT node FROM t
-- @expect
1
2
3
4
4
5
5

-- @query rec_seed_and_term_on_table
WITH RECURSIVE t AS (SELECT id, name, 0 AS depth FROM r_emp WHERE boss IS NULL UNION ALL SELECT e.id, e.name, t.depth + 1 FROM r_emp e JOIN t ON e.boss = t.id) SELECT id, name, depth FROM t
-- @expect
1	root	0
2	a	1
3	b	1
4	aa	2
5	ab	2
6	aaa	3

-- @query rec_tree_path
WITH RECURSIVE t AS (SELECT id, CAST(name AS VARCHAR) AS path FROM r_emp WHERE boss IS NULL UNION ALL SELECT e.id, t.path || '/' || e.name FROM r_emp e JOIN t ON e.boss = t.id) SELECT id, path FROM t WHERE id > 3
-- @expect
4	root/a/aa
5	root/a/ab
6	root/a/aa/aaa

-- @query rec_tree_count_per_depth
WITH RECURSIVE t AS (SELECT id, 0 AS depth FROM r_emp WHERE boss IS NULL UNION ALL SELECT e.id, t.depth + 1 FROM r_emp e JOIN t ON e.boss = t.id) SELECT depth, count(*) FROM t GROUP BY depth
-- @expect
0	1
1	2
2	2
3	1

-- @query rec_upwards
WITH RECURSIVE t AS (SELECT id, boss FROM r_emp WHERE id = 6 UNION ALL SELECT e.id, e.boss FROM r_emp e JOIN t ON t.boss = e.id) SELECT id FROM t
-- @expect
6
4
2
1

-- @query rec_term_joins_empty_table
WITH RECURSIVE t AS (SELECT 1 AS node UNION ALL SELECT e.dst FROM t JOIN r_empty e ON t.node = e.src) SELECT node FROM t
-- @expect
1

-- @query rec_bounded_depth_on_cycle
WITH RECURSIVE t AS (SELECT 6 AS node, 0 AS d UNION ALL SELECT e.dst, t.d + 1 FROM t JOIN r_edge e ON t.node = e.src WHERE t.d < 5) SELECT node, count(*) FROM t GROUP BY node
-- @expect
6	3
7	3

-- @query rec_union_distinct_pure
WITH RECURSIVE t AS (SELECT 0 AS n UNION SELECT (n + 3) % 7 FROM t) SELECT n FROM t
-- @expect
0
1
2
3
4
5
6

-- @query rec_union_distinct_cycle
WITH RECURSIVE t AS (SELECT 6 AS node UNION SELECT e.dst FROM t JOIN r_edge e ON t.node = e.src) SELECT node FROM t
-- @expect
6
7

-- @query rec_union_distinct_self_loop
WITH RECURSIVE t AS (SELECT 9 AS node UNION SELECT e.dst FROM t JOIN r_edge e ON t.node = e.src) SELECT node FROM t
-- @expect
9

-- @query rec_union_distinct_reachability
WITH RECURSIVE t AS (SELECT src, dst FROM r_edge UNION SELECT t.src, e.dst FROM t JOIN r_edge e ON t.dst = e.src) SELECT count(*) FROM t
-- @expect
14

-- @query rec_two_in_one_query
WITH RECURSIVE a AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM a WHERE n < 3), b AS (SELECT 10 AS n UNION ALL SELECT n + 1 FROM b WHERE n < 12) SELECT a.n, b.n FROM a CROSS JOIN b
-- @expect
1	10
1	11
1	12
2	10
2	11
2	12
3	10
3	11
3	12

-- @query rec_two_joined_with_tables
WITH RECURSIVE up AS (SELECT id, boss FROM r_emp WHERE id = 5 UNION ALL SELECT e.id, e.boss FROM r_emp e JOIN up ON up.boss = e.id), down AS (SELECT id FROM r_emp WHERE id = 2 UNION ALL SELECT e.id FROM r_emp e JOIN down ON e.boss = down.id) SELECT up.id FROM up JOIN down ON up.id = down.id
-- @expect
2
5

-- @query rec_used_twice
WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t WHERE n < 4) SELECT x.n, y.n FROM t x JOIN t y ON x.n = y.n + 1
-- @expect
2	1
3	2
4	3

-- @query rec_result_joined_with_table
WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t WHERE n < 8) SELECT t.n, e.name FROM t LEFT JOIN r_emp e ON e.id = t.n
-- @expect
1	root
2	a
3	b
4	aa
5	ab
6	aaa
7	orphan
8	NULL

-- @query rec_result_in_subquery
SELECT id FROM r_emp WHERE id NOT IN (WITH RECURSIVE t AS (SELECT id FROM r_emp WHERE boss IS NULL UNION ALL SELECT e.id FROM r_emp e JOIN t ON e.boss = t.id) SELECT id FROM t)
-- @expect
7

-- @query rec_result_limited ordered
WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t WHERE n < 100) SELECT n FROM t ORDER BY n DESC LIMIT 2
-- @expect
100
99

-- @query rec_term_with_two_joins
WITH RECURSIVE t AS (SELECT 1 AS node UNION ALL SELECT e.dst FROM t JOIN r_edge e ON t.node = e.src JOIN r_emp p ON p.id = e.dst) SELECT node, count(*) FROM t GROUP BY node
-- @expect
1	1
2	1
3	1
4	2
5	2

-- @query rec_term_left_join_bounded
WITH RECURSIVE t AS (SELECT 1 AS node, 0 AS d UNION ALL SELECT coalesce(e.dst, -1), t.d + 1 FROM t LEFT JOIN r_edge e ON t.node = e.src WHERE t.d < 3) SELECT node, d FROM t
-- @expect
1	0
2	1
3	1
4	2
4	2
5	3
5	3

-- @query rec_sum_over_tree
WITH RECURSIVE t AS (SELECT id AS root, id FROM r_emp UNION ALL SELECT t.root, e.id FROM r_emp e JOIN t ON e.boss = t.id) SELECT root, count(*) FROM t GROUP BY root
-- @expect
1	6
2	4
3	1
4	2
5	1
6	1
7	1

-- @query rec_dates ordered
WITH RECURSIVE t AS (SELECT CAST('2024-02-27' AS DATE) AS d UNION ALL SELECT CAST(d + INTERVAL '1' DAY AS DATE) FROM t WHERE d < CAST('2024-03-01' AS DATE)) SELECT d FROM t ORDER BY d
-- @expect
2024-02-27
2024-02-28
2024-02-29
2024-03-01
