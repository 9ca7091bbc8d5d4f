-- Arrays, structs, maps and unnest.

-- @table ne_a partition_by=bucket(3, id)
CREATE TABLE ne_a AS SELECT column1 AS id, column2 AS xs FROM (VALUES (1, make_array(1, 2, 3)), (2, make_array(4)), (3, NULL), (4, make_array(5, NULL, 6)));

-- @table ne_s partition_by=bucket(3, id)
CREATE TABLE ne_s AS SELECT column1 AS id, named_struct('a', column2, 'b', column3) AS st FROM (VALUES (1, 10, 'x'), (2, 20, NULL), (3, NULL, 'z'), (4, 10, 'x'));

-- @table ne_ls partition_by=bucket(3, id)
CREATE TABLE ne_ls AS SELECT column1 AS id, make_array(named_struct('k', column1, 'v', column2), named_struct('k', column1 + 100, 'v', 'extra')) AS l FROM (VALUES (1, 'x'), (2, 'y'), (3, NULL));

-- @query array_rows rows=4
SELECT id, xs FROM ne_a

-- @query array_length rows=3
SELECT id, array_length(xs), cardinality(xs) FROM ne_a WHERE xs IS NOT NULL

-- @query array_element
SELECT id, xs[1], xs[3], xs[-1] FROM ne_a
-- @expect
1	1	3	3
2	4	NULL	4
3	NULL	NULL	NULL
4	5	6	6

-- @query array_has
SELECT id FROM ne_a WHERE array_has(xs, 4)
-- @expect
2

-- @query array_append_concat rows=2
SELECT id, array_append(xs, 9), array_concat(xs, make_array(0)) FROM ne_a WHERE id IN (1, 2)

-- @query array_unnest
SELECT id, unnest(xs) AS x FROM ne_a
-- @expect
1	1
1	2
1	3
2	4
4	5
4	NULL
4	6

-- @query array_unnest_aggregate
SELECT count(*), sum(x) FROM (SELECT unnest(xs) AS x FROM ne_a) t
-- @expect
7	21

-- @query array_unnest_group
SELECT x % 2, count(*) FROM (SELECT unnest(xs) AS x FROM ne_a) t GROUP BY x % 2
-- @expect
0	3
1	3
NULL	1

-- @query array_unnest_join
SELECT t.id, a.id FROM (SELECT id, unnest(xs) AS x FROM ne_a) t JOIN ne_a a ON t.x = a.id
-- @expect
1	1
1	2
1	3
2	4

-- @query array_unnest_constant
SELECT unnest(make_array(3, 1, 2))
-- @expect
3
1
2

-- @query array_equality
SELECT id FROM ne_a WHERE xs = make_array(4)
-- @expect
2

-- @query array_group rows=4
SELECT xs, count(*) FROM (SELECT xs FROM ne_a UNION ALL SELECT xs FROM ne_a) u GROUP BY xs

-- @query array_distinct_rows
SELECT count(*) FROM (SELECT DISTINCT xs FROM ne_a) t
-- @expect
4

-- @query array_agg_then_unnest
SELECT count(*), sum(v) FROM (SELECT unnest(l) AS v FROM (SELECT array_agg(id) AS l FROM ne_a) q) t
-- @expect
4	10

-- @query array_agg_of_arrays
SELECT array_agg(xs ORDER BY id) FROM ne_a WHERE id < 3
-- @expect
[[1, 2, 3], [4]]

-- @query array_sort_reverse
SELECT id, array_sort(xs), array_reverse(xs) FROM ne_a WHERE id = 1
-- @expect
1	[1, 2, 3]	[3, 2, 1]

-- @query array_to_string
SELECT id, array_to_string(xs, '-') FROM ne_a WHERE id < 3
-- @expect
1	1-2-3
2	4

-- @query array_is_null
SELECT id FROM ne_a WHERE xs IS NULL
-- @expect
3

-- @query array_in_subquery
SELECT id FROM ne_a WHERE id IN (SELECT unnest(xs) FROM ne_a)
-- @expect
1
2
3
4

-- @query array_of_strings
SELECT id, make_array('a', CAST(id AS VARCHAR)) FROM ne_a WHERE id < 3
-- @expect
1	[a, 1]
2	[a, 2]

-- @query array_range rows=4
SELECT id, range(0, CAST(id AS BIGINT)) FROM ne_a

-- @query array_order_limit ordered rows=2
SELECT id, xs FROM ne_a ORDER BY id DESC LIMIT 2

-- @query array_nested
SELECT make_array(xs, xs) FROM ne_a WHERE id = 2
-- @expect
[[4], [4]]

-- @query struct_rows rows=4
SELECT id, st FROM ne_s

-- @query struct_fields
SELECT id, st['a'], st['b'] FROM ne_s
-- @expect
1	10	x
2	20	NULL
3	NULL	z
4	10	x

-- @query struct_filter
SELECT id FROM ne_s WHERE st['a'] = 10 AND st['b'] = 'x'
-- @expect
1
4

-- @query struct_group
SELECT st['a'], count(*) FROM ne_s GROUP BY st['a']
-- @expect
10	2
20	1
NULL	1

-- @query struct_group_whole
SELECT count(*) FROM (SELECT st, count(*) FROM ne_s GROUP BY st) t
-- @expect
3

-- @query struct_join_on_field
SELECT a.id, b.id FROM ne_s a JOIN ne_s b ON a.st['a'] = b.st['a'] AND a.id < b.id
-- @expect
1	4

-- @query struct_order_by_field ordered
SELECT id FROM ne_s ORDER BY st['a'] DESC NULLS LAST, id
-- @expect
2
1
4
3

-- @query struct_built_in_query
SELECT named_struct('n', id, 'd', id * 2)['d'] FROM ne_s
-- @expect
2
4
6
8

-- @query struct_sum_of_field
SELECT sum(st['a']), max(st['b']) FROM ne_s
-- @expect
40	z

-- @query struct_max_by_field_window rows=4
SELECT id, row_number() OVER (PARTITION BY st['a'] ORDER BY id) FROM ne_s

-- @query list_of_struct_rows rows=3
SELECT id, l FROM ne_ls

-- @query list_of_struct_element
SELECT id, l[1]['v'], l[2]['k'] FROM ne_ls
-- @expect
1	x	101
2	y	102
3	NULL	103

-- @query list_of_struct_unnest
SELECT id, u['k'], u['v'] FROM (SELECT id, unnest(l) AS u FROM ne_ls) t
-- @expect
1	1	x
1	101	extra
2	2	y
2	102	extra
3	3	NULL
3	103	extra

-- @query list_of_struct_group
SELECT u['v'], count(*) FROM (SELECT unnest(l) AS u FROM ne_ls) t GROUP BY u['v']
-- @expect
x	1
y	1
extra	3
NULL	1

-- @query struct_array_agg
SELECT array_agg(st['a'] ORDER BY id) FROM ne_s
-- @expect
[10, 20, , 10]

-- @query map_access rows=2
SELECT id, map(make_array('k'), make_array(id))['k'] FROM ne_s WHERE id < 3

-- @query nested_union
SELECT count(*) FROM (SELECT xs FROM ne_a UNION ALL SELECT make_array(id) FROM ne_s) u
-- @expect
8

-- Lists with 64-bit offsets, as many writers of Parquet and Arrow make them.
-- @table ne_large partition_by=bucket(2, id)
CREATE TABLE ne_large AS SELECT column1 AS id, arrow_cast(make_array(column1, column1 + 1), 'LargeList(Int64)') AS l FROM (VALUES (1), (2), (30), (4));

-- @query nested_large_list
SELECT id, l[2], cardinality(l) FROM ne_large
-- @expect
1	2	2
2	3	2
30	31	2
4	5	2

-- @query nested_large_list_group
SELECT l[1] AS a, count(*) FROM ne_large GROUP BY 1 ORDER BY 1 LIMIT 2
-- @expect
1	1
2	1
