-- IN, NOT IN, EXISTS, NOT EXISTS and quantified comparisons, with NULLs in every position.

-- @table n_t1 partition_by=bucket(4, a)
CREATE TABLE n_t1 (a INT);
INSERT INTO n_t1 SELECT value FROM generate_series(0, 19) AS g(value);

-- @table n_t2 partition_by=bucket(4, b)
CREATE TABLE n_t2 (b INT);
INSERT INTO n_t2 VALUES (0), (1), (2), (NULL), (4);

-- @table n_t3 partition_by=bucket(4, b)
CREATE TABLE n_t3 (b INT);
INSERT INTO n_t3 VALUES (0), (1), (2), (3), (4);

-- @table n_empty partition_by=bucket(4, b)
CREATE TABLE n_empty (b INT);

-- @table n_nulls partition_by=bucket(3, g)
CREATE TABLE n_nulls (g INT, x INT, y INT);
INSERT INTO n_nulls VALUES (1, 1, 1), (1, 2, NULL), (1, NULL, 3), (2, 1, 5), (2, NULL, NULL), (3, 7, 7), (NULL, 8, 8), (NULL, NULL, NULL);

-- @table n_three partition_by=x
CREATE TABLE n_three (x INT, y INT);
INSERT INTO n_three VALUES (1, 5), (2, 6), (3, 40);

-- @query S02_not_in_with_null
SELECT a FROM n_t1 WHERE a NOT IN (SELECT b FROM n_t2)
-- @expect

-- @query S02_not_in_without_null
SELECT a FROM n_t1 WHERE a NOT IN (SELECT b FROM n_t3)
-- @expect
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

-- @query S02_not_in_with_null_sort_merge
-- @set datafusion.optimizer.prefer_hash_join=false
SELECT a FROM n_t1 WHERE a NOT IN (SELECT b FROM n_t2)
-- @expect

-- @query S02_not_in_without_null_sort_merge
-- @set datafusion.optimizer.prefer_hash_join=false
SELECT count(*), min(a), max(a) FROM n_t1 WHERE a NOT IN (SELECT b FROM n_t3)
-- @expect
15	5	19

-- @query S02_count_of_not_in_with_null
SELECT count(*) FROM n_t1 WHERE a NOT IN (SELECT b FROM n_t2)
-- @expect
0

-- @query S02_not_in_filtered_null_away
SELECT count(*), sum(a) FROM n_t1 WHERE a NOT IN (SELECT b FROM n_t2 WHERE b IS NOT NULL)
-- @expect
16	183

-- @query S02_not_in_only_null
SELECT count(*) FROM n_t1 WHERE a NOT IN (SELECT b FROM n_t2 WHERE b IS NULL)
-- @expect
0

-- @query S02_not_in_empty
SELECT count(*) FROM n_t1 WHERE a NOT IN (SELECT b FROM n_empty)
-- @expect
20

-- @query S02_in_empty
SELECT count(*) FROM n_t1 WHERE a IN (SELECT b FROM n_empty)
-- @expect
0

-- @query S02_empty_not_in
SELECT count(*) FROM n_empty WHERE b NOT IN (SELECT b FROM n_t2)
-- @expect
0

-- @query S02_in_with_null
SELECT a FROM n_t1 WHERE a IN (SELECT b FROM n_t2)
-- @expect
0
1
2
4

-- @query S02_null_outer_not_in_non_empty
SELECT b FROM n_t2 WHERE b NOT IN (SELECT a FROM n_t1 WHERE a > 1)
-- @expect
0
1

-- @query S02_null_outer_not_in_empty
SELECT count(*), count(b) FROM n_t2 WHERE b NOT IN (SELECT b FROM n_empty)
-- @expect
5	4

-- @query S02_null_both_sides
SELECT count(*) FROM n_t2 x WHERE x.b NOT IN (SELECT y.b FROM n_t2 y)
-- @expect
0

-- @query S02_not_in_expression
SELECT a FROM n_t1 WHERE a + 1 NOT IN (SELECT b * 4 FROM n_t3)
-- @expect
0
1
2
4
5
6
8
9
10
12
13
14
16
17
18
19

-- @query S02_not_not_in
SELECT a FROM n_t1 WHERE NOT (a NOT IN (SELECT b FROM n_t2))
-- @expect
0
1
2
4

-- @query S02_not_in_and_other_filter
SELECT a FROM n_t1 WHERE a NOT IN (SELECT b FROM n_t3) AND a % 5 = 0
-- @expect
5
10
15

-- @query S02_not_exists_ignores_null
SELECT count(*) FROM n_t1 WHERE NOT EXISTS (SELECT 1 FROM n_t2 WHERE b = a)
-- @expect
16

-- @query S02_not_exists_uncorrelated_empty
SELECT count(*) FROM n_t1 WHERE NOT EXISTS (SELECT 1 FROM n_empty)
-- @expect
20

-- @query S02_exists_uncorrelated
SELECT count(*) FROM n_t1 WHERE EXISTS (SELECT 1 FROM n_t2 WHERE b IS NULL)
-- @expect
20

-- @query S02_exists_uncorrelated_none
SELECT count(*) FROM n_t1 WHERE EXISTS (SELECT 1 FROM n_t2 WHERE b > 100)
-- @expect
0

-- @query S02_not_in_list_with_null
SELECT count(*) FROM n_t1 WHERE a NOT IN (1, NULL)
-- @expect
0

-- @query S02_in_list_with_null
SELECT a FROM n_t1 WHERE a IN (1, NULL, 3)
-- @expect
1
3

-- @query S02_not_in_list
SELECT count(*) FROM n_t1 WHERE a NOT IN (1, 2, 3)
-- @expect
17

-- @query S02_not_in_in_select_list
SELECT b, b NOT IN (0, 1), b NOT IN (0, NULL), b IN (0, NULL) FROM n_t2
-- @expect
0	false	false	true
1	false	NULL	NULL
2	true	NULL	NULL
NULL	NULL	NULL	NULL
4	true	NULL	NULL

-- @query S02_correlated_not_in expect_only
SELECT g, x, y FROM n_nulls o WHERE o.x NOT IN (SELECT i.y FROM n_nulls i WHERE i.g = o.g)
-- @expect
NULL	8	8
NULL	NULL	NULL

-- @query S02_correlated_in
SELECT g, x, y FROM n_nulls o WHERE o.x IN (SELECT i.y FROM n_nulls i WHERE i.g = o.g)
-- @expect
1	1	1
3	7	7

-- @query S02_correlated_not_exists
SELECT g, x, y FROM n_nulls o WHERE NOT EXISTS (SELECT 1 FROM n_nulls i WHERE i.y = o.x AND i.g = o.g)
-- @expect
1	2	NULL
1	NULL	3
2	1	5
2	NULL	NULL
NULL	8	8
NULL	NULL	NULL

-- @query S02_correlated_exists_non_equi
SELECT g, x, y FROM n_nulls o WHERE EXISTS (SELECT 1 FROM n_nulls i WHERE i.y > o.x AND i.g = o.g)
-- @expect
1	1	1
1	2	NULL
2	1	5

-- @query S02_not_in_distinct_aggregate
SELECT a FROM n_t1 WHERE a NOT IN (SELECT max(x) FROM n_nulls GROUP BY g)
-- @expect
0
3
4
5
6
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

-- @query S02_not_in_aggregate_with_null
SELECT a FROM n_t1 WHERE a NOT IN (SELECT max(y) FROM n_nulls WHERE x IS NULL OR g = 99 GROUP BY g)
-- @expect

-- @query S02_two_not_in
SELECT count(*) FROM n_t1 WHERE a NOT IN (SELECT b FROM n_t3) AND a NOT IN (SELECT b + 10 FROM n_t3)
-- @expect
10

-- @query S02_in_or_in
SELECT a FROM n_t1 WHERE a IN (SELECT b FROM n_t3 WHERE b > 3) OR a = 19
-- @expect
4
19

-- @query S02_not_in_or_filter
SELECT count(*) FROM n_t1 WHERE a NOT IN (SELECT b FROM n_t3) OR a = 0
-- @expect
16

-- @query S02_not_in_union
SELECT count(*) FROM n_t1 WHERE a NOT IN (SELECT b FROM n_t3 UNION ALL SELECT x FROM n_three)
-- @expect
15

-- @query S02_not_in_other_type
SELECT count(*) FROM n_t1 WHERE CAST(a AS BIGINT) NOT IN (SELECT CAST(b AS DOUBLE) FROM n_t3)
-- @expect
15

-- @query S02_nested_not_in
SELECT a FROM n_t1 WHERE a NOT IN (SELECT b FROM n_t3 WHERE b NOT IN (SELECT x FROM n_three))
-- @expect
1
2
3
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

-- @query S02_exists_with_aggregate_inside
SELECT count(*) FROM n_t1 WHERE EXISTS (SELECT count(*) FROM n_empty)
-- @expect
20

-- @query S04_not_in_three_partitions
SELECT x, y FROM n_three WHERE x NOT IN (SELECT b FROM n_t3 WHERE b < 3)
-- @expect
3	40

-- @query S04_all_of_three_partitions_excluded
SELECT a FROM n_t1 WHERE a NOT IN (SELECT x FROM n_three) AND a < 6
-- @expect
0
4
5

-- @query S04_full_join_non_equality
SELECT l.x, r.x FROM n_three l FULL JOIN n_three r ON l.y < r.y
-- @expect
1	2
1	3
2	3
3	NULL
NULL	1

-- @query S04_greater_than_all
SELECT x FROM n_three WHERE y > ALL (SELECT x FROM n_three WHERE x < 3)
-- @expect
1
2
3

-- @query S04_greater_than_every_by_not_exists
SELECT a FROM n_t1 WHERE NOT EXISTS (SELECT 1 FROM n_three WHERE x * 5 >= a)
-- @expect
16
17
18
19

-- @query S04_greater_than_max
SELECT a FROM n_t1 WHERE a > (SELECT max(x) * 5 FROM n_three)
-- @expect
16
17
18
19

-- @query S04_count_all_partitions
SELECT count(*), sum(x), sum(y) FROM n_three
-- @expect
3	6	51

-- @query S04_cross_join_needs_all
SELECT count(*), sum(l.x * r.y) FROM n_three l CROSS JOIN n_three r
-- @expect
9	306

-- @table n_b partition_by=bucket(4, id)
CREATE TABLE n_b (id INT);
INSERT INTO n_b SELECT value FROM generate_series(1, 100) AS g(value);

-- @table n_p partition_by=bucket(4, pos)
CREATE TABLE n_p (pos INT, id INT);
INSERT INTO n_p SELECT value, 1 + (value % 100) FROM generate_series(1, 5000) AS g(value);

-- @query S05_semi_join_small_build_side
SELECT count(*) FROM n_b b WHERE EXISTS (SELECT 1 FROM n_p p WHERE p.id = b.id)
-- @expect
100

-- @query S05_anti_join_small_build_side
SELECT count(*) FROM n_b b WHERE NOT EXISTS (SELECT 1 FROM n_p p WHERE p.id = b.id)
-- @expect
0

-- @query S05_left_join_small_build_side
SELECT count(*) FROM n_b b LEFT JOIN n_p p ON p.id = b.id
-- @expect
5000

-- @query S05_semi_join_rows
SELECT count(*), sum(id), count(DISTINCT id) FROM n_b WHERE id IN (SELECT id FROM n_p)
-- @expect
100	5050	100

-- @query S05_semi_join_other_way
SELECT count(*), sum(id) FROM n_p WHERE id IN (SELECT id FROM n_b WHERE id <= 10)
-- @expect
500	2750

-- @query S05_anti_join_other_way
SELECT count(*) FROM n_p p WHERE NOT EXISTS (SELECT 1 FROM n_b b WHERE b.id = p.id AND b.id <= 10)
-- @expect
4500

-- @query S05_left_join_partly_matching
SELECT count(*), count(p.id) FROM n_b b LEFT JOIN n_p p ON p.id = b.id AND p.id <= 50
-- @expect
2550	2500

-- @query S05_right_join
SELECT count(*), count(b.id) FROM n_b b RIGHT JOIN n_p p ON p.id = b.id
-- @expect
5000	5000

-- @query S05_full_join
SELECT count(*), count(b.id), count(p.id) FROM n_b b FULL JOIN n_p p ON p.id = b.id + 1
-- @expect
5001	4951	5000

-- @query S05_mark_join
SELECT count(*) FROM n_b b WHERE b.id < 5 OR EXISTS (SELECT 1 FROM n_p p WHERE p.id = b.id AND p.id > 90)
-- @expect
14

-- @table n_hundred partition_by=bucket(5, a)
CREATE TABLE n_hundred (a BIGINT);
INSERT INTO n_hundred SELECT value FROM generate_series(1, 100) AS g(value);

-- @table n_single
CREATE TABLE n_single (a BIGINT);
INSERT INTO n_single VALUES (1);

-- @query S08_count_over_anti_join
SELECT count(*) FROM n_hundred t1 WHERE NOT EXISTS (SELECT 1 FROM n_single t2 WHERE t1.a = t2.a)
-- @expect
99

-- @query S08_rows_of_anti_join
SELECT count(*) FROM (SELECT * FROM n_hundred t1 WHERE NOT EXISTS (SELECT 1 FROM n_single t2 WHERE t1.a = t2.a)) q
-- @expect
99

-- @query S08_count_over_left_anti_keyword
SELECT count(*) FROM n_hundred t1 LEFT ANTI JOIN n_single t2 ON t1.a = t2.a
-- @expect
99

-- @query S08_count_one_over_anti_join
SELECT count(1) FROM n_hundred t1 LEFT JOIN n_single t2 ON t1.a = t2.a WHERE t2.a IS NULL
-- @expect
99

-- @query S08_constant_over_anti_join
SELECT sum(x) FROM (SELECT 1 AS x FROM n_hundred t1 WHERE t1.a NOT IN (SELECT a FROM n_single)) q
-- @expect
99

-- @query S08_count_over_semi_join
SELECT count(*) FROM n_hundred t1 WHERE EXISTS (SELECT 1 FROM n_single t2 WHERE t1.a = t2.a)
-- @expect
1

-- @query S08_count_over_cross_join
SELECT count(*) FROM n_hundred x CROSS JOIN n_hundred y
-- @expect
10000

-- @query S08_count_over_constant_projection
SELECT count(*) FROM (SELECT 1 FROM n_hundred WHERE a > 50) q
-- @expect
50

-- @table n_or partition_by=bucket(2, v)
CREATE TABLE n_or (id INT, v INT);
INSERT INTO n_or VALUES (NULL, 1), (1, 2), (5, 3);

-- @table n_or_list partition_by=bucket(2, id)
CREATE TABLE n_or_list (id INT, tag INT);
INSERT INTO n_or_list VALUES (1, 0), (2, 0), (NULL, 1);

-- @query not_in_under_or_null_on_the_left expect_only
SELECT id, v FROM n_or WHERE v > 100 OR id NOT IN (SELECT id FROM n_or_list WHERE tag = 0)
-- @expect
5	3

-- @query not_in_under_or_null_in_the_list expect_only
SELECT id, v FROM n_or WHERE v = 2 OR id NOT IN (SELECT id FROM n_or_list)
-- @expect
1	2

-- @query not_in_under_or_of_nothing expect_only
SELECT id, v FROM n_or WHERE v > 100 OR id NOT IN (SELECT id FROM n_or_list WHERE tag > 7)
-- @expect
NULL	1
1	2
5	3

-- @query not_of_in_under_or expect_only
SELECT v FROM n_or WHERE v > 100 OR NOT (id IN (SELECT id FROM n_or_list WHERE tag = 0))
-- @expect
3

-- @query not_in_under_not_and_or expect_only
SELECT v FROM n_or WHERE NOT (v > 100 OR id NOT IN (SELECT id FROM n_or_list WHERE tag = 0))
-- @expect
2

-- @query in_under_or_and_not expect_only
SELECT v FROM n_or WHERE v = 1 OR NOT (v = 3 OR id IN (SELECT id FROM n_or_list))
-- @expect
1

-- @query not_in_and_in_under_or expect_only
SELECT v FROM n_or WHERE (v = 3 AND id NOT IN (SELECT id FROM n_or_list WHERE tag = 0)) OR id IN (SELECT id FROM n_or_list)
-- @expect
2
3

-- @query not_in_under_or_expression expect_only
SELECT v FROM n_or WHERE v > 100 OR id + v NOT IN (SELECT id + 1 FROM n_or_list WHERE tag = 0)
-- @expect
3

-- @query not_in_under_case expect_only
SELECT v FROM n_or WHERE CASE WHEN v > 2 THEN true ELSE coalesce(id NOT IN (SELECT id FROM n_or_list WHERE tag = 0), v = 1) END
-- @expect
1
3

-- An aggregate has a row without any below it; the join that the engine makes of a correlated one has none.

-- @query exists_correlated_aggregate expect_only
SELECT x FROM (VALUES (1), (2)) a(x) WHERE EXISTS (SELECT count(*) FROM (VALUES (5)) b(y) WHERE b.y = a.x)
-- @expect
1
2

-- @query not_exists_correlated_aggregate expect_only
SELECT x FROM (VALUES (1), (2)) a(x) WHERE NOT EXISTS (SELECT max(y) FROM (VALUES (5)) b(y) WHERE b.y = a.x)
-- @expect

-- @query in_correlated_aggregate expect_only
SELECT x FROM (VALUES (1), (2)) a(x) WHERE 0 IN (SELECT count(*) FROM (VALUES (5)) b(y) WHERE b.y = a.x)
-- @expect
1
2

-- @query exists_having expect_only
SELECT x, y FROM n_three a WHERE EXISTS (SELECT max(n.y) FROM n_nulls n WHERE n.g = a.x HAVING count(*) > 1 AND max(n.y) < a.y)
-- @expect
1	5
2	6

-- @query not_exists_having expect_only
SELECT x, y FROM n_three a WHERE NOT EXISTS (SELECT 1 FROM n_nulls n WHERE n.g = a.x HAVING sum(n.y) > a.y)
-- @expect
1	5
2	6
3	40

-- @query in_having expect_only
SELECT x FROM n_three a WHERE x IN (SELECT count(*) FROM n_nulls n WHERE n.g = a.x HAVING max(n.y) IS NOT NULL)
-- @expect
2

-- @query not_in_aggregate_of_nulls expect_only
SELECT x FROM n_three a WHERE x NOT IN (SELECT max(n.y) FROM n_nulls n WHERE n.g = a.x AND n.y > 5)
-- @expect
3

-- @query in_aggregate_past_an_offset expect_only
SELECT x, x IN (SELECT count(*) FROM n_nulls n WHERE n.g = a.x OFFSET 1), EXISTS (SELECT count(*) FROM n_nulls n WHERE n.g = a.x LIMIT 0) FROM n_three a
-- @expect
1	false	false
2	false	false
3	false	false

-- @query aggregate_as_a_value expect_only
SELECT x, x IN (SELECT min(n.x) FROM n_nulls n WHERE n.g = a.x), NOT EXISTS (SELECT 1 FROM n_nulls n WHERE n.g = a.x HAVING count(n.y) > 1) FROM n_three a
-- @expect
1	true	false
2	false	true
3	false	true

-- @query exists_correlated_offset expect_only
SELECT x FROM (VALUES (1), (2)) a(x) WHERE EXISTS (SELECT 1 FROM (VALUES (1)) b(y) WHERE b.y = a.x OFFSET 1)
-- @expect

-- @query exists_offset expect_only
SELECT x, EXISTS (SELECT n.y FROM n_nulls n WHERE n.g = a.x ORDER BY n.y OFFSET 2) FROM n_three a WHERE EXISTS (SELECT 1 FROM n_nulls n WHERE n.g = a.x LIMIT 5 OFFSET 1)
-- @expect
1	true
2	false

-- @query not_exists_offset expect_only
SELECT x FROM n_three a WHERE NOT EXISTS (SELECT n.y FROM n_nulls n WHERE n.g = a.x LIMIT 1 OFFSET 1)
-- @expect
3

-- Which rows are past the offset depends on the outer row.

-- @query in_correlated_offset expect_only
SELECT x, x IN (SELECT n.x FROM n_nulls n WHERE n.g = a.x ORDER BY n.x DESC NULLS LAST OFFSET 1) FROM n_three a
-- @expect
1	true
2	NULL
3	false

-- @query in_correlated_limit expect_only
SELECT x FROM n_three a WHERE x IN (SELECT n.x FROM n_nulls n WHERE n.g = a.x ORDER BY n.x NULLS LAST LIMIT 1) AND x NOT IN (SELECT n.y FROM n_nulls n WHERE n.g = a.x AND n.y > 4 ORDER BY n.y DESC LIMIT 1)
-- @expect
1

-- @query in_correlated_offset_not_by_equality error expect_only
SELECT x FROM n_three a WHERE x IN (SELECT n.x FROM n_nulls n WHERE n.g < a.x ORDER BY n.x OFFSET 1)

-- @query exists_uncorrelated_aggregate
SELECT x FROM (VALUES (1), (2)) a(x) WHERE EXISTS (SELECT count(*) FROM (VALUES (5)) b(y) WHERE b.y = 6)
-- @expect
1
2
