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
