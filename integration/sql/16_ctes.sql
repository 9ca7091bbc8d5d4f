-- Common table expressions.

-- @table c_t partition_by=bucket(4, id)
CREATE TABLE c_t (id INT, g INT, v INT);
INSERT INTO c_t SELECT value, value % 4, value * value % 11 FROM generate_series(1, 40) AS g(value);

-- @table c_s
CREATE TABLE c_s (g INT, name VARCHAR);
INSERT INTO c_s VALUES (0, 'zero'), (1, 'one'), (2, 'two'), (9, 'nine');

-- @query cte_once
WITH a AS (SELECT g, sum(v) AS s FROM c_t GROUP BY g) SELECT * FROM a WHERE g > 1
-- @expect
2	40
3	43

-- @query cte_twice
WITH a AS (SELECT g, sum(v) AS s FROM c_t GROUP BY g) SELECT x.g, x.s, y.s FROM a x JOIN a y ON x.g = y.g
-- @expect
0	44	44
1	35	35
2	40	40
3	43	43

-- @query cte_many_times
WITH a AS (SELECT id FROM c_t WHERE id <= 10) SELECT count(*) FROM (SELECT * FROM a UNION ALL SELECT * FROM a UNION ALL SELECT * FROM a UNION ALL SELECT * FROM a UNION ALL SELECT * FROM a) u
-- @expect
50

-- @query cte_chain
WITH a AS (SELECT id, g FROM c_t WHERE id < 20), b AS (SELECT g, count(*) AS c FROM a GROUP BY g), d AS (SELECT max(c) AS m FROM b) SELECT b.g, b.c FROM b JOIN d ON b.c = d.m
-- @expect
1	5
2	5
3	5

-- @query cte_nested
WITH o AS (WITH i AS (SELECT id FROM c_t WHERE g = 1) SELECT count(*) AS c FROM i) SELECT c FROM o
-- @expect
10

-- @query cte_shadows_table
WITH c_s AS (SELECT 1 AS g, 'shadow' AS name) SELECT name, count(*) FROM c_t JOIN c_s ON c_t.g = c_s.g GROUP BY name
-- @expect
shadow	10

-- The engine refuses an inner name that repeats an outer one.

-- @query cte_inner_shadows_outer error
WITH a AS (SELECT 1 AS x) SELECT * FROM (WITH a AS (SELECT 2 AS x) SELECT x FROM a) q CROSS JOIN a

-- @query cte_unused
WITH unused AS (SELECT * FROM c_t), a AS (SELECT count(*) AS c FROM c_s) SELECT c FROM a
-- @expect
4

-- @query cte_column_names
WITH a(k, total) AS (SELECT g, sum(v) FROM c_t GROUP BY g) SELECT k FROM a WHERE total >= 0
-- @expect
0
1
2
3

-- @query cte_in_subquery
SELECT id FROM c_t WHERE v = (WITH m AS (SELECT max(v) AS x FROM c_t) SELECT x FROM m) AND id < 12
-- @expect
3
8

-- @query cte_in_exists
WITH a AS (SELECT g FROM c_s WHERE name LIKE 't%') SELECT count(*) FROM c_t WHERE EXISTS (SELECT 1 FROM a WHERE a.g = c_t.g)
-- @expect
10

-- @query cte_not_in
WITH a AS (SELECT g FROM c_s) SELECT count(*) FROM c_t WHERE g NOT IN (SELECT g FROM a)
-- @expect
10

-- @query cte_scalar_and_join
WITH a AS (SELECT g, avg(v) AS m FROM c_t GROUP BY g) SELECT count(*) FROM c_t JOIN a ON c_t.g = a.g WHERE c_t.v > a.m AND a.m > (SELECT min(m) FROM a)
-- @expect
12

-- @query cte_with_limit
WITH a AS (SELECT id FROM c_t ORDER BY id LIMIT 5) SELECT count(*), sum(x.id) FROM a x CROSS JOIN a y
-- @expect
25	75

-- @query cte_with_window
WITH a AS (SELECT id, g, row_number() OVER (PARTITION BY g ORDER BY v DESC, id) AS r FROM c_t) SELECT g, id FROM a WHERE r = 1
-- @expect
0	8
1	25
2	14
3	3

-- @query cte_values
WITH a(x, y) AS (VALUES (1, 'p'), (2, 'q')) SELECT a.y, count(*) FROM a JOIN c_t ON a.x = c_t.g GROUP BY a.y
-- @expect
p	10
q	10

-- @query cte_union
WITH a AS (SELECT g FROM c_t UNION SELECT g FROM c_s) SELECT g FROM a
-- @expect
0
1
2
3
9

-- @query cte_left_join_self_aggregate
WITH a AS (SELECT g, count(*) AS c FROM c_t WHERE v > 3 GROUP BY g) SELECT s.name, a.c FROM c_s s LEFT JOIN a ON s.g = a.g
-- @expect
nine	NULL
one	5
two	5
zero	6

-- @query cte_empty
WITH a AS (SELECT * FROM c_t WHERE false) SELECT count(*), sum(v) FROM a
-- @expect
0	NULL

-- @query cte_full_join_two
WITH a AS (SELECT g, count(*) AS c FROM c_t GROUP BY g), b AS (SELECT g, name FROM c_s) SELECT a.g, a.c, b.g, b.name FROM a FULL JOIN b ON a.g = b.g
-- @expect
0	10	0	zero
1	10	1	one
2	10	2	two
3	10	NULL	NULL
NULL	NULL	9	nine

-- @query cte_referenced_at_two_levels
WITH a AS (SELECT id, v FROM c_t) SELECT count(*) FROM a WHERE v > (SELECT avg(v) FROM a) AND id IN (SELECT id FROM a WHERE id % 2 = 0)
-- @expect
8
