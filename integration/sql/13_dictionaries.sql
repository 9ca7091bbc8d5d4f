-- Dictionary columns, and the same strings in other encodings.

-- @table di_over partition_by=p
CREATE TABLE di_over AS SELECT CAST(1 AS INT) AS p, value AS id, arrow_cast('one-' || CAST(value AS VARCHAR), 'Dictionary(Int8, Utf8)') AS s FROM generate_series(1, 100) AS g(value);
INSERT INTO di_over SELECT CAST(2 AS INT), value, arrow_cast('two-' || CAST(value AS VARCHAR), 'Dictionary(Int8, Utf8)') FROM generate_series(1, 100) AS g(value);
INSERT INTO di_over SELECT CAST(3 AS INT), value, arrow_cast('three-' || CAST(value AS VARCHAR), 'Dictionary(Int8, Utf8)') FROM generate_series(1, 100) AS g(value);

-- @table di_dict partition_by=bucket(2, id)
CREATE TABLE di_dict AS SELECT column1 AS id, arrow_cast(column2, 'Dictionary(Int32, Utf8)') AS s FROM (VALUES (1, 'x'), (2, 'x'), (3, 'y'), (4, NULL));

-- @table di_plain partition_by=bucket(2, id)
CREATE TABLE di_plain AS SELECT column1 AS id, arrow_cast(column2, 'Utf8') AS s FROM (VALUES (1, 'z'), (2, 'x'), (3, NULL), (4, 'x'));

-- @table di_view partition_by=bucket(2, id)
CREATE TABLE di_view AS SELECT column1 AS id, arrow_cast(column2, 'Utf8View') AS s FROM (VALUES (1, 'w'), (2, 'x'), (3, 'a string too long to be inlined'));

-- @table di_large
CREATE TABLE di_large AS SELECT column1 AS id, arrow_cast(column2, 'LargeUtf8') AS s FROM (VALUES (1, 'x'), (2, 'y'), (3, NULL));

-- @table di_mixed partition_by=p
CREATE TABLE di_mixed AS SELECT CAST(1 AS INT) AS p, arrow_cast('x', 'Dictionary(Int32, Utf8)') AS s;
INSERT INTO di_mixed SELECT CAST(2 AS INT), arrow_cast('x', 'Utf8');
INSERT INTO di_mixed SELECT CAST(3 AS INT), arrow_cast('x', 'Utf8View');
INSERT INTO di_mixed SELECT CAST(4 AS INT), arrow_cast('other', 'Dictionary(Int8, Utf8)');

-- @table di_st partition_by=bucket(3, id)
CREATE TABLE di_st AS SELECT column1 AS id, named_struct('d', arrow_cast(column2, 'Dictionary(Int32, Utf8)')) AS st FROM (VALUES (1, 'x'), (2, 'y'), (3, NULL));

-- @table di_part partition_by=s
CREATE TABLE di_part AS SELECT column1 AS id, arrow_cast(column2, 'Dictionary(Int16, Utf8)') AS s FROM (VALUES (1, 'x'), (2, 'y'), (3, 'x'), (4, NULL), (5, ''));

-- A single DataFusion process fails on most of these with a key overflow; the cluster must answer.

-- @query S22_group_by expect_only
SELECT count(*), sum(c) FROM (SELECT s, count(*) AS c FROM di_over GROUP BY s) q
-- @expect
300	300

-- @query S22_distinct expect_only
SELECT count(*) FROM (SELECT DISTINCT s FROM di_over) q
-- @expect
300

-- @query S22_group_by_rows expect_only rows=300
SELECT s, count(*) FROM di_over GROUP BY s

-- @query S22_distinct_rows expect_only rows=300
SELECT DISTINCT s FROM di_over

-- @query S22_count_distinct expect_only
SELECT count(DISTINCT s) FROM di_over
-- @expect
300

-- @query S22_all_rows rows=300
SELECT p, id, s FROM di_over

-- @query S22_order_limit ordered
SELECT s FROM di_over ORDER BY s LIMIT 3
-- @expect
one-1
one-10
one-100

-- @query S22_min_max
SELECT min(s), max(s) FROM di_over
-- @expect
one-1	two-99

-- @query S22_join expect_only
SELECT count(*) FROM di_over a JOIN di_over b ON a.s = b.s
-- @expect
300

-- @query S22_union expect_only
SELECT count(*) FROM (SELECT s FROM di_over UNION SELECT s FROM di_over) u
-- @expect
300

-- @query S22_filter
SELECT p, id FROM di_over WHERE s = 'two-50'
-- @expect
2	50

-- @query S22_group_by_two expect_only
SELECT count(*) FROM (SELECT s, p, count(*) FROM di_over GROUP BY s, p) q
-- @expect
300

-- @query S22_window expect_only
SELECT max(c), count(*) FROM (SELECT count(*) OVER (PARTITION BY s) AS c FROM di_over) q
-- @expect
1	300

-- @query S22_array_agg expect_only
SELECT p, array_length(array_agg(s)) FROM di_over GROUP BY p
-- @expect
1	100
2	100
3	100

-- @query S23_group_over_encodings
SELECT s, count(*) FROM (SELECT s FROM di_dict UNION ALL SELECT s FROM di_plain UNION ALL SELECT s FROM di_view) u GROUP BY s
-- @expect
x	5
y	1
z	1
w	1
a string too long to be inlined	1
NULL	2

-- @query S23_group_over_partitions
SELECT s, count(*) FROM di_mixed GROUP BY s
-- @expect
x	3
other	1

-- @query S23_group_filter_over_partitions
SELECT p FROM di_mixed WHERE s = 'x'
-- @expect
1
2
3

-- @query S23_self_join_over_partitions
SELECT count(*) FROM di_mixed a JOIN di_mixed b ON a.s = b.s
-- @expect
10

-- @query S23_join_dict_plain
SELECT a.id, b.id FROM di_dict a JOIN di_plain b ON a.s = b.s
-- @expect
1	2
1	4
2	2
2	4

-- @query S23_join_dict_view
SELECT a.id, b.id FROM di_dict a JOIN di_view b ON a.s = b.s
-- @expect
1	2
2	2

-- @query S23_join_plain_view
SELECT a.id, b.id FROM di_plain a JOIN di_view b ON a.s = b.s
-- @expect
2	2
4	2

-- @query S23_join_dict_large
SELECT a.id, b.id FROM di_dict a JOIN di_large b ON a.s = b.s
-- @expect
1	1
2	1
3	2

-- @query S23_full_join rows=8
SELECT a.id, b.id FROM di_dict a FULL JOIN di_plain b ON a.s = b.s

-- @query S23_semi
SELECT id FROM di_plain WHERE s IN (SELECT s FROM di_dict WHERE s IS NOT NULL)
-- @expect
2
4

-- @query S23_anti
SELECT id FROM di_view WHERE s NOT IN (SELECT s FROM di_dict WHERE s IS NOT NULL)
-- @expect
1
3

-- @query S23_intersect
SELECT s FROM di_dict INTERSECT SELECT s FROM di_view
-- @expect
x

-- @query S23_union_distinct
SELECT s FROM di_dict UNION SELECT s FROM di_plain UNION SELECT s FROM di_view UNION SELECT s FROM di_large
-- @expect
x
y
z
w
a string too long to be inlined
NULL

-- @query dict_group
SELECT s, count(*), min(id) FROM di_dict GROUP BY s
-- @expect
x	2	1
y	1	3
NULL	1	4

-- @query dict_filter
SELECT id FROM di_dict WHERE s = 'x'
-- @expect
1
2

-- @query dict_not_equal
SELECT id FROM di_dict WHERE s <> 'x'
-- @expect
3

-- @query dict_in_list
SELECT id FROM di_dict WHERE s IN ('y', 'q')
-- @expect
3

-- @query dict_like
SELECT id FROM di_dict WHERE s LIKE 'x%'
-- @expect
1
2

-- @query dict_is_null
SELECT id FROM di_dict WHERE s IS NULL
-- @expect
4

-- @query dict_order ordered
SELECT id, s FROM di_dict ORDER BY s NULLS LAST, id
-- @expect
1	x
2	x
3	y
4	NULL

-- @query dict_functions
SELECT id, upper(s), length(s), s || '!' FROM di_dict
-- @expect
1	X	1	x!
2	X	1	x!
3	Y	1	y!
4	NULL	NULL	NULL

-- @query dict_min_max
SELECT min(s), max(s), count(s), count(DISTINCT s) FROM di_dict
-- @expect
x	y	3	2

-- @query dict_case
SELECT id, CASE WHEN s = 'x' THEN s ELSE 'none' END FROM di_dict
-- @expect
1	x
2	x
3	none
4	none

-- @query dict_coalesce
SELECT id, coalesce(s, 'none') FROM di_dict
-- @expect
1	x
2	x
3	y
4	none

-- @query dict_window rows=4
SELECT id, row_number() OVER (PARTITION BY s ORDER BY id) FROM di_dict

-- @query dict_string_agg
SELECT string_agg(s, ',' ORDER BY id) FROM di_dict
-- @expect
x,x,y

-- @query dict_two_columns rows=4
SELECT a.s, b.s FROM di_dict a CROSS JOIN di_dict b WHERE a.id = 1

-- @query dict_scalar_subquery
SELECT id FROM di_dict WHERE s = (SELECT max(s) FROM di_dict)
-- @expect
3

-- @query dict_partition_column_equality
SELECT id FROM di_part WHERE s = 'x'
-- @expect
1
3

-- @query dict_partition_column_null
SELECT id FROM di_part WHERE s IS NULL
-- @expect
4

-- @query dict_partition_column_all
SELECT s, count(*) FROM di_part GROUP BY s
-- @expect
x	2
y	1
NULL	1
(empty)	1

-- @query S26_struct_rows
SELECT id, st['d'] FROM di_st
-- @expect
1	x
2	y
3	NULL

-- @query S26_struct_field_filter
SELECT id FROM di_st WHERE st['d'] = 'x'
-- @expect
1

-- @query S26_struct_equals_null_struct rows=0
SELECT id FROM di_st WHERE st = arrow_cast(NULL, 'Struct("d": Dictionary(Int32, Utf8))')

-- @query S26_struct_equals_struct
SELECT id FROM di_st WHERE st = named_struct('d', arrow_cast('x', 'Dictionary(Int32, Utf8)'))
-- @expect
1

-- @query S26_struct_is_null
SELECT count(*) FROM di_st WHERE st IS NULL
-- @expect
0

-- @query S26_list_of_dictionary_values rows=2
SELECT id FROM di_dict WHERE array_has(make_array(arrow_cast('x', 'Dictionary(Int32, Utf8)'), arrow_cast('q', 'Dictionary(Int32, Utf8)')), s)

-- @query S26_list_constant_column rows=1
SELECT id, make_array(arrow_cast('x', 'Dictionary(Int32, Utf8)'), s) FROM di_dict WHERE id = 3

-- @query S26_in_list_of_dictionary_constants
SELECT id FROM di_dict WHERE s IN (arrow_cast('x', 'Dictionary(Int32, Utf8)'), arrow_cast('q', 'Dictionary(Int32, Utf8)'))
-- @expect
1
2

-- @query S26_struct_constant_in_projection
SELECT id, named_struct('d', arrow_cast('k', 'Dictionary(Int32, Utf8)'))['d'] FROM di_dict WHERE id < 3
-- @expect
1	k
2	k

-- @query S26_dictionary_constant_compared
SELECT id FROM di_plain WHERE s = arrow_cast('x', 'Dictionary(Int8, Utf8)')
-- @expect
2
4

-- @query S26_group_by_struct rows=3
SELECT st['d'], count(*) FROM di_st GROUP BY st
