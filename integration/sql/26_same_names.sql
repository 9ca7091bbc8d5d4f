-- Joins of tables that share column names: a filter must reach the column it names, on either side of every join.

-- @table sn_a partition_by=bucket(3, id)
CREATE TABLE sn_a (id INT, g VARCHAR);
INSERT INTO sn_a VALUES (1, 'a'), (2, NULL), (4, 'z');

-- @table sn_b
CREATE TABLE sn_b (id INT, g VARCHAR);
INSERT INTO sn_b VALUES (1, 'z'), (2, 'z'), (3, 'z');

-- @query same_right_is_null
SELECT a.id, b.g FROM sn_a a RIGHT JOIN sn_b b ON a.id = b.id WHERE a.g IS NULL;
-- @expect
2	z
NULL	z

-- @query same_right_distinct_from
SELECT a.id, b.id FROM sn_a a RIGHT JOIN sn_b b ON a.id = b.id WHERE a.g IS DISTINCT FROM 'a';
-- @expect
2	2
NULL	3

-- @query same_right_coalesce
SELECT a.id, b.id FROM sn_a a RIGHT JOIN sn_b b ON a.id = b.id WHERE coalesce(a.g, b.g) = 'z';
-- @expect
2	2
NULL	3

-- @query same_left_is_null
SELECT b.id, a.g FROM sn_b b LEFT JOIN sn_a a ON a.id = b.id WHERE a.g IS NULL;
-- @expect
2	NULL
3	NULL

-- @query same_full_either
SELECT a.id, b.id FROM sn_a a FULL JOIN sn_b b ON a.id = b.id WHERE a.g IS NULL OR b.g IS NULL;
-- @expect
2	2
4	NULL
NULL	3

-- @query same_inner_other_side
SELECT a.id FROM sn_a a JOIN sn_b b ON a.id = b.id WHERE a.g IS NULL AND b.g = 'z';
-- @expect
2

-- @query same_three_tables
SELECT a.id, c.g FROM sn_a a RIGHT JOIN sn_b b ON a.id = b.id RIGHT JOIN sn_a c ON c.id = b.id WHERE a.g IS NULL;
-- @expect
2	NULL
NULL	z

-- @query same_top_k ordered
SELECT a.g, b.g FROM sn_a a RIGHT JOIN sn_b b ON a.id = b.id ORDER BY a.g NULLS FIRST, b.id LIMIT 2;
-- @expect
NULL	z
NULL	z

-- The inner side of a semi join has a column of the name of the outer side's key; it is not the one that is compared.

-- @table sn_c
CREATE TABLE sn_c (id INT, ref INT);
INSERT INTO sn_c VALUES (100, 1), (200, 2), (300, 9);

-- @query same_semi_other_key
SELECT b.id, x.g
FROM sn_b b
JOIN (SELECT a.id, a.g FROM sn_a a WHERE EXISTS (SELECT 1 FROM sn_c c WHERE c.ref = a.id AND c.id <> a.id)) x
  ON b.id = x.id;
-- @expect
1	a
2	NULL

-- @query same_semi_other_key_filtered
SELECT a.id FROM sn_a a WHERE EXISTS (SELECT 1 FROM sn_c c WHERE c.ref = a.id AND c.id <> a.id) AND a.id + 0 < 2;
-- @expect
1

-- @query same_anti_other_key
SELECT b.id, x.id
FROM sn_b b
LEFT JOIN (SELECT a.id FROM sn_a a WHERE NOT EXISTS (SELECT 1 FROM sn_c c WHERE c.ref = a.id AND c.id <> a.id)) x
  ON b.id < x.id
WHERE x.id IS DISTINCT FROM 1;
-- @expect
1	4
2	4
3	4

-- @query same_union_other_names
SELECT u.id, b.g FROM (SELECT id, g FROM sn_a UNION ALL SELECT ref, CAST(id AS VARCHAR) FROM sn_c) u
JOIN sn_b b ON b.id = u.id WHERE u.g IS NOT NULL AND u.g <> 'b';
-- @expect
1	z
1	z
2	z

-- @query same_swapped_names
SELECT y.id, y.ref FROM (SELECT ref AS id, id AS ref FROM sn_c) y JOIN sn_a a ON a.id = y.id WHERE y.ref > 100;
-- @expect
2	200

-- @query same_grouped
SELECT x.id, b.id, count(*) FROM (SELECT ref AS id, max(id) AS m FROM sn_c GROUP BY ref) x JOIN sn_b b ON b.id >= x.id
WHERE x.id < 9 AND b.id < 3 GROUP BY x.id, b.id;
-- @expect
1	1	1
1	2	1
2	2	1

-- @query same_twice_joined
SELECT p.id, q.id, r.ref FROM sn_a p JOIN sn_a q ON p.id < q.id JOIN sn_c r ON r.ref = q.id
WHERE p.g = 'a' AND q.g IS NULL AND r.id > 100;
-- @expect
1	2	2

-- Columns of the result that the planner gives one name, since it leaves casts and parentheses out of names.

-- @query same_cast expect_only
SELECT id, CAST(id AS BIGINT), id::VARCHAR, (id) FROM sn_a WHERE id < 3;
-- @expect
1	1	1	1
2	2	2	2

-- @query same_cast_first expect_only
SELECT CAST(b.id AS BIGINT), b.id, a.id::VARCHAR FROM sn_b b LEFT JOIN sn_a a ON a.id = b.id;
-- @expect
1	1	1
2	2	2
3	3	NULL

-- @query same_cast_beside_all expect_only
SELECT *, id::BIGINT FROM sn_a WHERE id = 4;
-- @expect
4	z	4

-- @query same_cast_inside expect_only
SELECT id + 1, id::BIGINT + 1, sn_a.id + 1, ABS(id), abs(id) FROM sn_a WHERE id = 4;
-- @expect
5	5	5	4	4

-- @query same_cast_of_aggregate expect_only
SELECT sum(id), sum(CAST(id AS DOUBLE)), count(id), count(id::BIGINT) FROM sn_a;
-- @expect
7	7.0	3	3

-- @query same_cast_in_subquery expect_only
SELECT count(*) FROM (SELECT CAST(id AS BIGINT), id FROM sn_a) s WHERE id > 1;
-- @expect
2

-- @query same_literals expect_only
SELECT 1, CAST(1 AS BIGINT), '2020-01-01', DATE '2020-01-01';
-- @expect
1	1	2020-01-01	2020-01-01

-- @query same_cast_ordered ordered expect_only
SELECT id::VARCHAR, id FROM sn_a ORDER BY id DESC;
-- @expect
4	4
2	2
1	1

-- @query same_cast_union expect_only
SELECT id, id::BIGINT FROM sn_a WHERE id = 1 UNION ALL SELECT id, id::BIGINT FROM sn_b WHERE id = 3;
-- @expect
1	1
3	3
