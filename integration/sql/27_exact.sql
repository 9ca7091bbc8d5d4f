-- Arithmetic that is exact or fails, numbers with a decimal point, result columns of one name, subqueries for one value.

-- @table ex_i partition_by=bucket(4, id)
CREATE TABLE ex_i (id INT, g INT, t TINYINT, s SMALLINT, i INT, b BIGINT);
INSERT INTO ex_i VALUES (1, 1, 127, 32767, 2147483647, 9223372036854775807), (2, 1, 1, 1, 1, 1), (3, 2, -128, -32768, -2147483648, -9223372036854775808), (4, 2, 0, 0, 0, NULL), (5, 3, 7, 70, 700, 7000), (6, 3, NULL, NULL, NULL, NULL);

-- @table ex_spread partition_by=p
CREATE TABLE ex_spread (p INT, v BIGINT);
INSERT INTO ex_spread SELECT value % 4, CASE WHEN value % 4 < 2 THEN 9223372036854775807 ELSE -9223372036854775807 END FROM generate_series(1, 40) AS g(value);

-- @table ex_u
CREATE TABLE ex_u AS SELECT column1 AS id, arrow_cast(column2, 'UInt64') AS u, arrow_cast(column3, 'UInt8') AS w FROM (VALUES (1, 1, 0), (2, 3, 255), (3, 0, 1));

-- @table ex_d partition_by=bucket(2, id)
CREATE TABLE ex_d (id INT, d DECIMAL(20,18), f DOUBLE, n DECIMAL(12,2));
INSERT INTO ex_d VALUES (1, 1.000000000000000001, 0.1, 10.10), (2, 1.000000000000000002, 0.30000000000000004, 20.20), (3, 0.1, 1e300, 0.30);

-- @table ex_o partition_by=bucket(3, k)
CREATE TABLE ex_o (k INT, name VARCHAR);
INSERT INTO ex_o VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, NULL);

-- @table ex_r partition_by=bucket(2, id)
CREATE TABLE ex_r (id INT, k INT, x INT);
INSERT INTO ex_r VALUES (1, 1, 10), (2, 2, 20), (3, 3, 30), (4, 3, 31), (5, 4, NULL);

-- @table ex_ts partition_by=bucket(2, id)
CREATE TABLE ex_ts (id INT, ts TIMESTAMP, tz TIMESTAMP WITH TIME ZONE);
INSERT INTO ex_ts VALUES (1, '2024-01-01 10:00:00', '2024-01-01T00:00:00+02:00'), (2, '2024-06-01 00:00:00', '2024-06-30T12:00:00Z'), (3, NULL, NULL);

-- @query exact_sum_bigint_overflow error
SELECT sum(b) FROM ex_i WHERE g = 1

-- @query exact_sum_bigint_underflow error
SELECT sum(b - 1) FROM ex_i WHERE id IN (3, 5) GROUP BY g HAVING sum(b) < 0

-- @query exact_sum_grouped_overflow error
SELECT g, sum(b) FROM ex_i GROUP BY g

-- @query exact_sum_grouped_in_range
SELECT g, sum(b) FROM ex_i WHERE id <> 2 GROUP BY g
-- @expect
1	9223372036854775807
2	-9223372036854775808
3	7000

-- @query exact_sum_total_fits
SELECT sum(v), count(*) FROM ex_spread
-- @expect
0	40

-- @query exact_sum_total_fits_grouped
SELECT p % 2, sum(v), count(*) FROM ex_spread GROUP BY p % 2
-- @expect
0	0	20
1	0	20

-- @query exact_sum_part_does_not_fit error
SELECT p, sum(v) FROM ex_spread GROUP BY p

-- @query exact_sum_filtered
SELECT sum(v) FILTER (WHERE p = 0 AND v < 0), sum(v) FILTER (WHERE p < 0 OR p = 99) FROM ex_spread
-- @expect
NULL	NULL

-- @query exact_sum_distinct
SELECT sum(DISTINCT v) FROM ex_spread
-- @expect
0

-- @query exact_sum_distinct_overflow error
SELECT sum(DISTINCT b) FROM ex_i WHERE id IN (1, 2)

-- @query exact_sum_distinct_grouped
SELECT g, sum(DISTINCT b), count(DISTINCT i) FROM ex_i WHERE id <> 2 GROUP BY g
-- @expect
1	9223372036854775807	1
2	-9223372036854775808	2
3	7000	1

-- @query exact_sum_unsigned
SELECT sum(u), sum(w) FROM ex_u
-- @expect
4	256

-- @query exact_sum_empty
SELECT sum(b), sum(DISTINCT b) FROM ex_i WHERE id > 100
-- @expect
NULL	NULL

-- @query exact_sum_cast_to_decimal
SELECT sum(CAST(b AS DECIMAL(38,0))) FROM ex_i WHERE g = 1
-- @expect
9223372036854775808

-- @query exact_window_sum
SELECT id, sum(b) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM ex_i WHERE id IN (1, 3, 5)
-- @expect
1	9223372036854775807
3	-1
5	-9223372036854768808

-- @query exact_window_sum_overflow error
SELECT id, sum(b) OVER (ORDER BY id) FROM ex_i WHERE id IN (1, 2)

-- @query exact_add_tinyint error
SELECT t + t FROM ex_i WHERE id = 1

-- @query exact_add_smallint error
SELECT s + s FROM ex_i WHERE id = 1

-- @query exact_add_int error
SELECT i + i FROM ex_i WHERE id = 1

-- @query exact_add_bigint error
SELECT b + 1 FROM ex_i WHERE id = 1

-- @query exact_subtract error
SELECT b - 1 FROM ex_i WHERE id = 3

-- @query exact_multiply error
SELECT b * 2 FROM ex_i WHERE id = 1

-- @query exact_negate error
SELECT -b FROM ex_i WHERE id = 3

-- @query exact_abs error
SELECT abs(b) FROM ex_i WHERE id = 3

-- @query exact_divide_smallest error
SELECT b / -1 FROM ex_i WHERE id = 3

-- @query exact_unsigned_difference error
SELECT u - arrow_cast(2, 'UInt64') FROM ex_u

-- @query exact_constant_overflow error
SELECT 9223372036854775807 + 1

-- @query exact_in_filter error
SELECT count(*) FROM ex_i WHERE b + b > 0

-- @query exact_in_join error
SELECT count(*) FROM ex_i x JOIN ex_i y ON x.b + 1 = y.b

-- @query exact_in_group_by error
SELECT b * 3, count(*) FROM ex_i GROUP BY b * 3

-- @query exact_in_order_by error
SELECT id FROM ex_i ORDER BY b * 3

-- @query exact_in_range
SELECT id, t + 1, i + 1, b + t, -i, i * 2 FROM ex_i WHERE id IN (2, 4, 5, 6)
-- @expect
2	2	2	2	-1	2
4	1	1	NULL	0	0
5	8	701	7007	-700	1400
6	NULL	NULL	NULL	NULL	NULL

-- @query exact_guarded_by_case
SELECT id, CASE WHEN b < 1000000 AND b > -1000000 THEN b * 1000 END FROM ex_i
-- @expect
1	NULL
2	1000
3	NULL
4	NULL
5	7000000
6	NULL

-- @query exact_column_names rows=1
SELECT b + 1 - t * 2, -i FROM ex_i WHERE id = 5

-- @query exact_grouped_expression
SELECT i % 2 + 1, sum(i * 2) + 1 FROM ex_i WHERE id IN (2, 5) GROUP BY i % 2 + 1
-- @expect
1	1401
2	3

-- @query exact_dates_and_numbers
SELECT DATE '2024-01-31' + INTERVAL '1 day' = DATE '2024-02-01', DATE '2024-03-01' - DATE '2024-02-01'
-- @expect
true	29

-- @query literal_tenths
SELECT 0.1 + 0.2 = 0.3, 0.1 + 0.2, 1.10 * 3
-- @expect
true	0.3	3.30

-- @query literal_many_digits
SELECT id FROM ex_d WHERE d = 1.000000000000000001
-- @expect
1

-- @query literal_many_digits_in_list
SELECT id FROM ex_d WHERE d IN (1.000000000000000002, 0.100000000000000000)
-- @expect
2
3

-- @query literal_against_double
SELECT id FROM ex_d WHERE f = 0.1 OR f = 0.30000000000000004
-- @expect
1
2

-- @query literal_exponent
SELECT id FROM ex_d WHERE f = 1e300 AND 1.5e1 = 15
-- @expect
3

-- @query literal_quotient
SELECT 1 / 4.0, 2.5 / 2, (1 + 0.5) / 3
-- @expect
0.25	1.25	0.5

-- @query literal_against_bigint
SELECT count(*) FROM ex_i WHERE b > 9223372036854775806.5
-- @expect
1

-- @query literal_beyond_64_bits
SELECT 18446744073709551616 + 1
-- @expect
18446744073709551617

-- @query literal_case_and_coalesce
SELECT id, CASE WHEN id = 1 THEN 1.5 ELSE 2 END, coalesce(NULL, 0.25) FROM ex_d
-- @expect
1	1.5	0.25
2	2.0	0.25
3	2.0	0.25

-- @query literal_in_functions
SELECT round(2.345, 2), floor(-1.5), abs(-2.50), greatest(1.5, 2), sqrt(6.25), power(1.5, 2)
-- @expect
2.35	-2.0	2.50	2.0	2.5	2.25

-- @query literal_between
SELECT id FROM ex_d WHERE n BETWEEN 10.1 AND 20.2
-- @expect
1
2

-- @query names_twice expect_only
SELECT count(*), count(*) FROM ex_i
-- @expect
6	6

-- @query names_with_wildcard expect_only ordered
SELECT *, k FROM ex_o ORDER BY k
-- @expect
1	a	1
2	b	2
3	c	3
4	NULL	4

-- @query names_alias_twice expect_only
SELECT 1 AS x, 2 AS x, 3 AS x
-- @expect
1	2	3

-- @query names_grouped expect_only
SELECT g, g, sum(i), sum(i) FROM ex_i WHERE g = 3 GROUP BY g
-- @expect
3	3	700	700

-- @query names_union expect_only
SELECT k, k FROM ex_o WHERE k = 1 UNION ALL SELECT x, x FROM ex_r WHERE id = 1
-- @expect
1	1
10	10

-- @query names_in_subquery expect_only
SELECT * FROM (SELECT k, k FROM ex_o WHERE k = 2) s
-- @expect
2	2

-- @query names_ambiguous_order error
SELECT k AS x, name AS x FROM ex_o ORDER BY x

-- @query one_value_correlated expect_only
SELECT o.k, (SELECT r.x FROM ex_r r WHERE r.k = o.k) FROM ex_o o WHERE o.k <> 3
-- @expect
1	10
2	20
4	NULL

-- @query one_value_no_row expect_only
SELECT o.k, (SELECT r.x FROM ex_r r WHERE r.k = o.k + 100) FROM ex_o o
-- @expect
1	NULL
2	NULL
3	NULL
4	NULL

-- @query one_value_too_many expect_only error
SELECT o.k, (SELECT r.x FROM ex_r r WHERE r.k = o.k) FROM ex_o o

-- @query one_value_in_filter expect_only
SELECT o.k FROM ex_o o WHERE o.k <> 3 AND (SELECT r.x FROM ex_r r WHERE r.k = o.k) > 15
-- @expect
2

-- @query one_value_text expect_only
SELECT r.id, (SELECT o.name FROM ex_o o WHERE o.k = r.k) FROM ex_r r
-- @expect
1	a
2	b
3	c
4	c
5	NULL

-- @query one_value_expression expect_only
SELECT o.k, 1 + (SELECT r.x * 2 FROM ex_r r WHERE r.k = o.k AND r.id < 4) FROM ex_o o
-- @expect
1	21
2	41
3	61
4	NULL

-- @query one_value_tied_by_order error
SELECT o.k, (SELECT r.x FROM ex_r r WHERE r.k > o.k) FROM ex_o o

-- @query one_value_exists expect_only
SELECT o.k, EXISTS (SELECT 1 FROM ex_r r WHERE r.k = o.k AND r.x > 15), NOT EXISTS (SELECT 1 FROM ex_r) FROM ex_o o
-- @expect
1	false	false
2	true	false
3	true	false
4	false	false

-- @query one_value_grouped expect_only
SELECT o.k, (SELECT max(r.x) FROM ex_r r WHERE r.k = o.k GROUP BY r.k) FROM ex_o o
-- @expect
1	10
2	20
3	31
4	NULL

-- @query filter_against_own_day rows=1
SELECT count(*) FROM ex_ts WHERE ts >= CAST(ts AS DATE)

-- @query zone_is_kept
SELECT id, tz, arrow_typeof(tz) FROM ex_ts WHERE tz >= TIMESTAMP '2023-12-31 23:00:00'
-- @expect
2	2024-06-30T12:00:00Z	Timestamp(ns, "+00:00")

-- @table ex_f partition_by=bucket(2, id)
CREATE TABLE ex_f (id INT, f DOUBLE, d DECIMAL(10,2));
INSERT INTO ex_f VALUES (1, 1e-20, 0.50), (2, 1e300, 1.50), (3, 0.1, 0.10), (4, NULL, NULL);

-- @query float_meets_decimal
SELECT id, f > 0.0, f < 10.5, f = d, f BETWEEN 0.0 AND 1.5, f IN (0.1, 0.25) FROM ex_f
-- @expect
1	true	true	false	true	false
2	true	false	false	false	false
3	true	true	true	true	true
4	NULL	NULL	NULL	NULL	NULL

-- @query float_or_decimal
SELECT id, CASE WHEN id < 3 THEN f ELSE 0.25 END, coalesce(f, 0.75), greatest(f, d) FROM ex_f WHERE id <> 1
-- @expect
2	1e300	1e300	1e300
3	0.25	0.1	0.1
4	0.25	0.75	NULL

-- @query float_union_decimal
SELECT x * 2 FROM (SELECT f AS x FROM ex_f UNION ALL SELECT d FROM ex_f UNION ALL SELECT 0.125) u WHERE x < 0.3
-- @expect
2e-20
0.2
0.2
0.25
