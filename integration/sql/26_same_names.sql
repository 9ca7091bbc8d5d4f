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
