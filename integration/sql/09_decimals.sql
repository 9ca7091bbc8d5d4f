-- Decimals: averages, overflow, scales and keys.

-- @table d_avg partition_by=bucket(4, id)
CREATE TABLE d_avg (id BIGINT, x DECIMAL(5,0));
INSERT INTO d_avg SELECT value, 99999 FROM generate_series(1, 21476) AS g(value);

-- @table d_huge partition_by=p
CREATE TABLE d_huge (p INT, id INT, x DECIMAL(38,0));
INSERT INTO d_huge SELECT value % 2, value, CAST('90000000000000000000000000000000000000' AS DECIMAL(38,0)) FROM generate_series(1, 10) AS g(value);

-- @table d_l partition_by=bucket(4, k)
CREATE TABLE d_l (id INT, k DECIMAL(10,2));
INSERT INTO d_l VALUES (1, 1.50), (2, 2.25), (3, NULL), (4, -1.50), (5, 0.00);

-- @table d_r partition_by=bucket(4, k)
CREATE TABLE d_r (id INT, k DECIMAL(12,4));
INSERT INTO d_r VALUES (1, 1.5000), (2, 2.2501), (3, NULL), (4, -1.5000), (5, 0.0000), (6, 7.0000);

-- @table d_key partition_by=bucket(3, k)
CREATE TABLE d_key (id INT, k DECIMAL(38,0));
INSERT INTO d_key SELECT value, CAST('12345678901234567890123456789012345670' AS DECIMAL(38,0)) + value % 5 FROM generate_series(1, 30) AS g(value);

-- @table d_m partition_by=bucket(4, id)
CREATE TABLE d_m (id INT, a DECIMAL(10,2), b DECIMAL(18,6), c DECIMAL(38,10));
INSERT INTO d_m VALUES (1, '10.25', '0.125000', '1.5'), (2, '-3.10', '1.000001', '-2.5'), (3, NULL, '2.5', NULL), (4, '0.00', NULL, '0'), (5, '99999999.99', '999999999999.999999', '1234567890123456789.0123456789');

-- @query S20_a_average
SELECT avg(x) = 99999, count(*), sum(x) FROM d_avg
-- @expect
true	21476	2147578524

-- @query S20_a_average_value
SELECT CAST(avg(x) AS DECIMAL(9,4)) FROM d_avg
-- @expect
99999.0000

-- @query S20_a_average_grouped
SELECT id % 3, CAST(avg(x) AS DECIMAL(9,4)), sum(x) FROM d_avg GROUP BY id % 3
-- @expect
0	99999.0000	715792842
1	99999.0000	715892841
2	99999.0000	715892841

-- @query S20_a_average_of_partition_averages
SELECT CAST(avg(m) AS DECIMAL(9,2)) FROM (SELECT id % 16 AS g, avg(x) AS m FROM d_avg GROUP BY id % 16) q
-- @expect
99999.00

-- DataFusion's own sum wraps around here, so only the cluster is held to the error.

-- @query S20_b_sum_overflow expect_only error
SELECT sum(x) FROM d_huge

-- @query S20_b_sum_overflow_grouped expect_only error
SELECT p, sum(x) FROM d_huge GROUP BY p

-- @query S20_b_sum_overflow_having expect_only error
SELECT p FROM d_huge GROUP BY p HAVING sum(x) > 0

-- @query S20_b_no_overflow_for_one_row
SELECT id, sum(x) FROM d_huge WHERE id = 3 GROUP BY id
-- @expect
3	90000000000000000000000000000000000000

-- @query S20_b_max_is_fine
SELECT max(x), min(x), count(x) FROM d_huge
-- @expect
90000000000000000000000000000000000000	90000000000000000000000000000000000000	10

-- @query S20_b_window_sum_overflow expect_only error
SELECT id, sum(x) OVER (ORDER BY id) FROM d_huge

-- @query S20_c_join_scales
SELECT l.id, r.id FROM d_l l JOIN d_r r ON l.k = r.k WHERE l.k = 1.5
-- @expect
1	1

-- @query S20_c_join_all
SELECT l.id, r.id FROM d_l l JOIN d_r r ON l.k = r.k
-- @expect
1	1
4	4
5	5

-- @query S20_c_full_join
SELECT l.id, r.id, l.k, r.k FROM d_l l FULL JOIN d_r r ON l.k = r.k
-- @expect
1	1	1.50	1.5000
2	NULL	2.25	NULL
3	NULL	NULL	NULL
4	4	-1.50	-1.5000
5	5	0.00	0.0000
NULL	2	NULL	2.2501
NULL	3	NULL	NULL
NULL	6	NULL	7.0000

-- @query S20_c_semi
SELECT id FROM d_l WHERE k IN (SELECT k FROM d_r)
-- @expect
1
4
5

-- @query S20_c_anti
SELECT id FROM d_l l WHERE NOT EXISTS (SELECT 1 FROM d_r r WHERE r.k = l.k)
-- @expect
2
3

-- @query S20_c_union_scales
SELECT k, count(*) FROM (SELECT k FROM d_l UNION ALL SELECT k FROM d_r) u GROUP BY k
-- @expect
-1.5000	2
0.0000	2
1.5000	2
2.2500	1
2.2501	1
7.0000	1
NULL	2

-- @query S20_c_filter_other_scale
SELECT id FROM d_l WHERE k = 1.500000
-- @expect
1

-- @query S20_c_partition_key_filter
SELECT id FROM d_r WHERE k > 1.5 AND k < 3
-- @expect
2

-- @query S20_d_wide_key_join
SELECT count(*), count(DISTINCT a.k) FROM d_key a JOIN d_key b ON a.k = b.k
-- @expect
180	5

-- @query S20_d_wide_key_group
SELECT k, count(*) FROM d_key GROUP BY k
-- @expect
12345678901234567890123456789012345670	6
12345678901234567890123456789012345671	6
12345678901234567890123456789012345672	6
12345678901234567890123456789012345673	6
12345678901234567890123456789012345674	6

-- @query S20_d_wide_key_equality
SELECT count(*) FROM d_key WHERE k = CAST('12345678901234567890123456789012345672' AS DECIMAL(38,0))
-- @expect
6

-- @query S20_d_wide_key_range
SELECT count(*) FROM d_key WHERE k > CAST('12345678901234567890123456789012345672' AS DECIMAL(38,0))
-- @expect
12

-- @query S20_d_wide_key_order ordered
SELECT DISTINCT k FROM d_key ORDER BY k DESC LIMIT 2
-- @expect
12345678901234567890123456789012345674
12345678901234567890123456789012345673

-- @query dec_arithmetic
SELECT id, a + b, a - b, a * b FROM d_m WHERE id < 5
-- @expect
1	10.375000	10.125000	1.28125000
2	-2.099999	-4.100001	-3.10000310
3	NULL	NULL	NULL
4	NULL	NULL	NULL

-- @query dec_division
SELECT id, a / CAST(4 AS DECIMAL(10,2)) FROM d_m WHERE id < 5
-- @expect
1	2.562500
2	-0.775000
3	NULL
4	0.000000

-- @query dec_division_by_zero error
SELECT a / (a - a) FROM d_m WHERE id = 1

-- @query dec_modulo
SELECT id, a % CAST(3 AS DECIMAL(10,2)) FROM d_m WHERE id < 3
-- @expect
1	1.25
2	-0.10

-- @query dec_sum
SELECT sum(a), sum(b), sum(c), count(a) FROM d_m
-- @expect
100000007.14	1000000000003.625000	1234567890123456788.0123456789	4

-- @query dec_min_max
SELECT min(a), max(a), min(b), max(b), min(c), max(c) FROM d_m
-- @expect
-3.10	99999999.99	0.125000	999999999999.999999	-2.5000000000	1234567890123456789.0123456789

-- @query dec_round
SELECT id, round(a, 1), round(b, 2), floor(a), ceil(a) FROM d_m WHERE id < 5
-- @expect
1	10.3	0.13	10.00	11.00
2	-3.1	1.00	-4.00	-3.00
3	NULL	2.50	NULL	NULL
4	0.0	NULL	0.00	0.00

-- @query dec_abs_neg
SELECT id, abs(a), -a FROM d_m
-- @expect
1	10.25	-10.25
2	3.10	3.10
3	NULL	NULL
4	0.00	0.00
5	99999999.99	-99999999.99

-- @query dec_cast_down
SELECT id, CAST(b AS DECIMAL(10,1)) FROM d_m WHERE id < 4
-- @expect
1	0.1
2	1.0
3	2.5

-- @query dec_cast_overflow error
SELECT CAST(a AS DECIMAL(4,2)) FROM d_m WHERE id = 5

-- @query dec_try_cast_overflow
SELECT id, TRY_CAST(a AS DECIMAL(4,2)) FROM d_m
-- @expect
1	10.25
2	-3.10
3	NULL
4	0.00
5	NULL

-- @query dec_cast_to_int
SELECT id, CAST(a AS BIGINT) FROM d_m WHERE id < 5
-- @expect
1	10
2	-3
3	NULL
4	0

-- @query dec_cast_to_double
SELECT id, CAST(a AS DOUBLE) FROM d_m WHERE id < 5
-- @expect
1	10.25
2	-3.1
3	NULL
4	0.0

-- @query dec_cast_to_string
SELECT id, CAST(a AS VARCHAR), CAST(b AS VARCHAR) FROM d_m WHERE id < 3
-- @expect
1	10.25	0.125000
2	-3.10	1.000001

-- @query dec_compare_with_int_and_double
SELECT id FROM d_m WHERE a > 10 AND a < 10.5
-- @expect
1

-- @query dec_group_by
SELECT a, count(*) FROM (SELECT a FROM d_m UNION ALL SELECT a FROM d_m) u GROUP BY a
-- @expect
-3.10	2
0.00	2
10.25	2
99999999.99	2
NULL	2

-- @query dec_order ordered
SELECT id FROM d_m ORDER BY a DESC NULLS LAST, id
-- @expect
5
1
4
2
3

-- @query dec_average
SELECT CAST(avg(a) AS DECIMAL(20,4)), CAST(avg(b) AS DECIMAL(20,4)) FROM d_m WHERE id < 5
-- @expect
2.3833	1.2083

-- @query dec_distinct_sum
SELECT sum(DISTINCT a), count(DISTINCT a) FROM (SELECT a FROM d_m UNION ALL SELECT a FROM d_m) u
-- @expect
100000007.14	4

-- @query dec_in_list
SELECT id FROM d_m WHERE a IN (10.25, -3.1, NULL)
-- @expect
1
2

-- @query dec_coalesce_types
SELECT id, coalesce(a, b) FROM d_m WHERE id IN (1, 3)
-- @expect
1	10.250000
3	2.500000

-- @query dec_case_types
SELECT id, CASE WHEN a > 5 THEN a ELSE 0 END FROM d_m WHERE id < 5
-- @expect
1	10.25
2	0.00
3	0.00
4	0.00

-- @query dec_window
SELECT id, sum(a) OVER (ORDER BY id) FROM d_m WHERE id < 5
-- @expect
1	10.25
2	7.15
3	7.15
4	7.15

-- @query dec_price_with_discount
SELECT sum(a * (1 - b)) FROM d_m WHERE id < 3
-- @expect
8.96875310
