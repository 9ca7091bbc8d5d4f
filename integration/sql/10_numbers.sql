-- Integers and floats: overflow, division, limits, special values, casts.

-- @table num_i partition_by=bucket(4, id)
CREATE TABLE num_i (id INT, t TINYINT, s SMALLINT, i INT, b BIGINT);
INSERT INTO num_i VALUES (1, 127, 32767, 2147483647, 9223372036854775807), (2, -128, -32768, -2147483648, -9223372036854775808), (3, 0, 0, 0, 0), (4, NULL, NULL, NULL, NULL), (5, 7, 70, 700, 7000);

-- @table num_f partition_by=bucket(4, id)
CREATE TABLE num_f (id INT, f DOUBLE, r REAL);
INSERT INTO num_f VALUES (1, 1.5, 1.5), (2, 0.0, 0.0), (3, -0.5, -0.5), (4, NULL, NULL), (5, 1e300, 1e30), (6, 4.0, 4.0);

-- @table num_s partition_by=id
CREATE TABLE num_s (id INT, f DOUBLE);
INSERT INTO num_s SELECT 1, CAST('NaN' AS DOUBLE);
INSERT INTO num_s SELECT 2, CAST('Infinity' AS DOUBLE);
INSERT INTO num_s SELECT 3, CAST('-Infinity' AS DOUBLE);
INSERT INTO num_s SELECT 4, 1.0;
INSERT INTO num_s SELECT 5, CAST('NaN' AS DOUBLE);
INSERT INTO num_s SELECT 6, NULL;

-- @table num_div partition_by=bucket(4, n)
CREATE TABLE num_div (n INT, d INT);
INSERT INTO num_div VALUES (10, 2), (7, 0), (9, 3), (NULL, 1), (5, NULL), (-7, 2), (0, 5);

-- @table num_u
CREATE TABLE num_u AS SELECT column1 AS id, arrow_cast(column2, 'UInt8') AS a, arrow_cast(column2, 'UInt32') AS b, arrow_cast(column2, 'UInt64') AS c FROM (VALUES (1, 0), (2, 255), (3, NULL), (4, 17));

-- @query int_limits
SELECT min(t), max(t), min(s), max(s), min(i), max(i), min(b), max(b) FROM num_i
-- @expect
-128	127	-32768	32767	-2147483648	2147483647	-9223372036854775808	9223372036854775807

-- @query int_rows
SELECT id, t, s, i, b FROM num_i
-- @expect
1	127	32767	2147483647	9223372036854775807
2	-128	-32768	-2147483648	-9223372036854775808
3	0	0	0	0
4	NULL	NULL	NULL	NULL
5	7	70	700	7000

-- @query int_sum_of_narrow
SELECT sum(t), sum(s), sum(i) FROM num_i
-- @expect
6	69	699

-- @query int_sum_narrow_does_not_wrap
SELECT sum(t) FROM (SELECT t FROM num_i WHERE id = 1 UNION ALL SELECT t FROM num_i WHERE id = 1) u
-- @expect
254

-- @query int_add_in_range
SELECT id, i + i FROM num_i WHERE id = 5
-- @expect
5	1400

-- @query int_add_overflow error
SELECT id, i + i, b + 1 FROM num_i WHERE id <= 2

-- @query int_sum_overflow error
SELECT sum(b + 0) FROM (SELECT b FROM num_i WHERE id = 1 UNION ALL SELECT b FROM num_i WHERE id = 1 UNION ALL SELECT b FROM num_i WHERE id = 5) u

-- @query int_multiply_overflow error
SELECT id, b * 3 FROM num_i WHERE id <= 2

-- @query int_product
SELECT id, i * 2, b - 1, -i FROM num_i WHERE id >= 3
-- @expect
3	0	-1	0
4	NULL	NULL	NULL
5	1400	6999	-700

-- @query int_division_truncates
SELECT n, d, n / d FROM num_div WHERE d <> 0
-- @expect
10	2	5
9	3	3
NULL	1	NULL
-7	2	-3
0	5	0

-- @query int_modulo_sign
SELECT n, n % 4 FROM num_div
-- @expect
10	2
7	3
9	1
NULL	NULL
5	1
-7	-3
0	0

-- @query int_division_by_zero error
SELECT n / d FROM num_div WHERE n = 7

-- @query int_division_by_zero_everywhere error
SELECT sum(n / d) FROM num_div

-- @query int_modulo_by_zero error
SELECT n % d FROM num_div WHERE n = 7

-- @query int_division_by_zero_in_filter error
SELECT count(*) FROM num_div WHERE n / d > 1

-- @query int_division_by_zero_constant error
SELECT 1 / 0

-- @query int_division_by_null
SELECT n / NULL, count(*) FROM num_div GROUP BY 1
-- @expect
NULL	7

-- @query int_cast_overflow error
SELECT CAST(b AS INT) FROM num_i WHERE id = 1

-- @query int_cast_overflow_tiny error
SELECT CAST(i AS TINYINT) FROM num_i WHERE id = 5

-- @query int_try_cast
SELECT id, TRY_CAST(b AS INT), TRY_CAST(i AS SMALLINT) FROM num_i
-- @expect
1	NULL	NULL
2	NULL	NULL
3	0	0
4	NULL	NULL
5	7000	700

-- @query int_cast_from_string_fails error
SELECT CAST('x' || CAST(id AS VARCHAR) AS INT) FROM num_i

-- @query int_try_cast_from_string
SELECT id, TRY_CAST(CASE WHEN id % 2 = 0 THEN 'x' ELSE '12' END AS INT) FROM num_i
-- @expect
1	12
2	NULL
3	12
4	NULL
5	12

-- @query int_compare_widths
SELECT a.id, b.id FROM num_i a JOIN num_i b ON a.t = b.b
-- @expect
3	3

-- @query int_join_min_max
SELECT count(*) FROM num_i a JOIN num_i b ON a.b = b.b AND a.i = b.i AND a.s = b.s AND a.t = b.t
-- @expect
4

-- @query int_bitwise
SELECT id, i & 255, i | 1, i << 2, i >> 1 FROM num_i WHERE id IN (3, 5)
-- @expect
3	0	1	0	0
5	188	701	2800	350

-- @query int_literals_large
SELECT count(*) FROM num_i WHERE b = 9223372036854775807
-- @expect
1

-- @query int_literals_min
SELECT id FROM num_i WHERE b = -9223372036854775808
-- @expect
2

-- @query int_filter_out_of_range_literal
SELECT id FROM num_i WHERE t < 1000
-- @expect
1
2
3
5

-- @query unsigned_rows rows=4
SELECT id, a, b, c FROM num_u

-- @query unsigned_sum_max
SELECT sum(a), max(a), min(b), sum(c), count(a) FROM num_u
-- @expect
272	255	0	272	3

-- @query unsigned_join_signed
SELECT u.id, n.id FROM num_u u JOIN num_i n ON u.c = n.b
-- @expect
1	3

-- @query float_rows rows=6
SELECT id, f, r FROM num_f

-- @query float_sum_exact
SELECT sum(f), avg(f), min(f), max(f) FROM num_f WHERE id <> 5
-- @expect
5.0	1.25	-0.5	4.0

-- @query float_division_by_zero
SELECT id, f / 0.0 FROM num_f WHERE id IN (1, 3)
-- @expect
1	inf
3	-inf

-- @query float_zero_by_zero
SELECT f / f FROM num_f WHERE id = 2
-- @expect
NaN

-- @query float_negative_zero_equals_zero
SELECT count(*) FROM num_f WHERE f = -0.0
-- @expect
1

-- @query float_negative_zero_groups
SELECT count(*) FROM (SELECT v FROM (SELECT CAST(0.0 AS DOUBLE) AS v UNION ALL SELECT CAST('-0.0' AS DOUBLE)) t GROUP BY v) q
-- @expect
1

-- @query float_functions
SELECT id, round(f), floor(f), ceil(f), trunc(f), abs(f) FROM num_f WHERE id <> 5
-- @expect
1	2.0	1.0	2.0	1.0	1.5
2	0.0	0.0	0.0	0.0	0.0
3	-1.0	-1.0	-0.0	-0.0	0.5
4	NULL	NULL	NULL	NULL	NULL
6	4.0	4.0	4.0	4.0	4.0

-- @query float_sqrt_power
SELECT id, sqrt(abs(f)), power(f, 2) FROM num_f WHERE id IN (2, 6)
-- @expect
2	0.0	0.0
6	2.0	16.0

-- @query float_compare_real_with_double
SELECT id FROM num_f WHERE f = r
-- @expect
1
2
3
6

-- @query float_join
SELECT a.id, b.id FROM num_f a JOIN num_f b ON a.f = b.r
-- @expect
1	1
2	2
3	3
6	6

-- @query float_cast_to_int
SELECT id, CAST(f AS INT) FROM num_f WHERE id IN (1, 2, 6)
-- @expect
1	1
2	0
6	4

-- @query float_cast_to_int_overflow error
SELECT CAST(f AS INT) FROM num_f WHERE id = 5

-- @query special_count_groups
SELECT f, count(*) FROM num_s GROUP BY f
-- @expect
NaN	2
inf	1
-inf	1
1.0	1
NULL	1

-- @query special_equal_nan
SELECT count(*) FROM num_s WHERE f = CAST('NaN' AS DOUBLE)
-- @expect
2

-- @query special_isnan
SELECT id FROM num_s WHERE isnan(f)
-- @expect
1
5

-- @query special_order ordered
SELECT id FROM num_s ORDER BY f NULLS FIRST, id
-- @expect
6
3
4
2
1
5

-- @query special_min_without_nan
SELECT min(f), max(f) FROM num_s WHERE NOT isnan(f)
-- @expect
-inf	inf

-- @query special_distinct
SELECT count(DISTINCT f) FROM num_s
-- @expect
4

-- @query special_join
SELECT a.id, b.id FROM num_s a JOIN num_s b ON a.f = b.f WHERE a.id < b.id
-- @expect
1	5

-- @query special_filter_greater
SELECT id FROM num_s WHERE f > 0 AND NOT isnan(f)
-- @expect
2
4

-- @query num_greatest_least
SELECT id, greatest(i, s), least(i, 3) FROM num_i
-- @expect
1	2147483647	3
2	-32768	-2147483648
3	0	0
4	NULL	3
5	700	3

-- @query num_nullif_zero
SELECT n, n / nullif(d, 0) FROM num_div
-- @expect
10	5
7	NULL
9	3
NULL	NULL
5	NULL
-7	-3
0	0

-- @query num_between
SELECT n FROM num_div WHERE n BETWEEN 0 AND 9
-- @expect
7
9
5
0

-- @query num_not_between
SELECT n FROM num_div WHERE n NOT BETWEEN 0 AND 9
-- @expect
10
-7

-- @query num_implicit_string_comparison
SELECT n FROM num_div WHERE n = CAST('10' AS INT)
-- @expect
10
