-- Window functions. Every ORDER BY inside OVER is unique where the function depends on the order of peers.

-- @table w_t partition_by=bucket(4, id)
CREATE TABLE w_t (id INT, g VARCHAR, x INT, d DOUBLE);
INSERT INTO w_t VALUES (1, 'a', 10, 1.5), (2, 'a', 20, 2.5), (3, 'a', 20, NULL), (4, 'b', NULL, 4.0), (5, 'b', 50, 5.0), (6, 'c', 60, 6.0), (7, NULL, 70, 7.0), (8, NULL, NULL, 8.0), (9, 'b', 5, 0.5);

-- @table w_big partition_by=bucket(4, id)
CREATE TABLE w_big (id BIGINT, g BIGINT, x BIGINT);
INSERT INTO w_big SELECT value, value % 10, value * 7 % 101 FROM generate_series(1, 1500) AS g(value);

-- @table w_e partition_by=bucket(4, id)
CREATE TABLE w_e (id INT, g VARCHAR, x INT);

-- @query win_row_number
SELECT id, row_number() OVER (PARTITION BY g ORDER BY id) FROM w_t
-- @expect
1	1
2	2
3	3
4	1
5	2
6	1
7	1
8	2
9	3

-- @query win_row_number_global
SELECT id, row_number() OVER (ORDER BY id DESC) FROM w_t
-- @expect
1	9
2	8
3	7
4	6
5	5
6	4
7	3
8	2
9	1

-- @query win_rank_family rows=9
SELECT id, rank() OVER (ORDER BY x NULLS LAST), dense_rank() OVER (ORDER BY x NULLS LAST), percent_rank() OVER (ORDER BY x NULLS LAST), cume_dist() OVER (ORDER BY x NULLS LAST) FROM w_t

-- @query win_rank_partitioned
SELECT id, rank() OVER (PARTITION BY g ORDER BY x DESC NULLS LAST), dense_rank() OVER (PARTITION BY g ORDER BY x DESC NULLS LAST) FROM w_t
-- @expect
1	3	2
2	1	1
3	1	1
4	3	3
5	1	1
6	1	1
7	1	1
8	2	2
9	2	2

-- @query win_ntile
SELECT id, ntile(4) OVER (ORDER BY id), ntile(2) OVER (PARTITION BY g ORDER BY id) FROM w_t
-- @expect
1	1	1
2	1	1
3	1	2
4	2	1
5	2	1
6	3	1
7	3	1
8	4	2
9	4	2

-- @query win_lag_lead
SELECT id, lag(x) OVER (ORDER BY id), lead(x) OVER (ORDER BY id) FROM w_t
-- @expect
1	NULL	20
2	10	20
3	20	NULL
4	20	50
5	NULL	60
6	50	70
7	60	NULL
8	70	5
9	NULL	NULL

-- @query win_lag_lead_offset_default
SELECT id, lag(x, 2, -1) OVER (ORDER BY id), lead(x, 3, -2) OVER (PARTITION BY g ORDER BY id) FROM w_t
-- @expect
1	-1	-2
2	-1	-2
3	10	-2
4	20	-2
5	20	-2
6	NULL	-2
7	50	-2
8	60	-2
9	70	-2

-- @query win_lag_ignore_nulls rows=9
SELECT id, lag(x) IGNORE NULLS OVER (ORDER BY id) FROM w_t

-- @query win_first_last_nth
SELECT id, first_value(x) OVER w, last_value(x) OVER w, nth_value(x, 2) OVER w FROM w_t WINDOW w AS (PARTITION BY g ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
-- @expect
1	10	20	20
2	10	20	20
3	10	20	20
4	NULL	5	50
5	NULL	5	50
6	60	60	NULL
7	70	NULL	NULL
8	70	NULL	NULL
9	NULL	5	50

-- @query win_first_value_ignore_nulls rows=9
SELECT id, first_value(x) IGNORE NULLS OVER (PARTITION BY g ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) FROM w_t

-- @query win_last_value_default_frame
SELECT id, last_value(x) OVER (PARTITION BY g ORDER BY id) FROM w_t
-- @expect
1	10
2	20
3	20
4	NULL
5	50
6	60
7	70
8	NULL
9	5

-- @query win_sum_running
SELECT id, sum(x) OVER (ORDER BY id) FROM w_t
-- @expect
1	10
2	30
3	50
4	50
5	100
6	160
7	230
8	230
9	235

-- @query win_sum_partition
SELECT id, sum(x) OVER (PARTITION BY g) FROM w_t
-- @expect
1	50
2	50
3	50
4	55
5	55
6	60
7	70
8	70
9	55

-- @query win_sum_no_partition_no_order
SELECT id, sum(x) OVER (), count(x) OVER (), count(*) OVER () FROM w_t
-- @expect
1	235	7	9
2	235	7	9
3	235	7	9
4	235	7	9
5	235	7	9
6	235	7	9
7	235	7	9
8	235	7	9
9	235	7	9

-- @query win_range_peers
SELECT id, sum(x) OVER (ORDER BY x NULLS FIRST), count(*) OVER (ORDER BY x NULLS FIRST) FROM w_t
-- @expect
1	15	4
2	55	6
3	55	6
4	NULL	2
5	105	7
6	165	8
7	235	9
8	NULL	2
9	5	3

-- @query win_rows_preceding_following
SELECT id, sum(x) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM w_t
-- @expect
1	30
2	50
3	40
4	70
5	110
6	180
7	130
8	75
9	5

-- @query win_rows_two_preceding
SELECT id, avg(id) OVER (ORDER BY id ROWS 2 PRECEDING) FROM w_t
-- @expect
1	1.0
2	1.5
3	2.0
4	3.0
5	4.0
6	5.0
7	6.0
8	7.0
9	8.0

-- @query win_rows_following_only
SELECT id, min(id) OVER (ORDER BY id ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING), max(id) OVER (ORDER BY id ROWS BETWEEN 3 PRECEDING AND 2 PRECEDING) FROM w_t
-- @expect
1	2	NULL
2	3	NULL
3	4	1
4	5	2
5	6	3
6	7	4
7	8	5
8	9	6
9	NULL	7

-- @query win_rows_unbounded_following
SELECT id, count(*) OVER (ORDER BY id ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) FROM w_t
-- @expect
1	9
2	8
3	7
4	6
5	5
6	4
7	3
8	2
9	1

-- @query win_range_numeric
SELECT id, sum(id) OVER (ORDER BY id RANGE BETWEEN 2 PRECEDING AND 1 FOLLOWING) FROM w_t
-- @expect
1	3
2	6
3	10
4	14
5	18
6	22
7	26
8	30
9	24

-- @query win_range_numeric_with_nulls
SELECT id, count(*) OVER (ORDER BY x NULLS LAST RANGE BETWEEN 10 PRECEDING AND 10 FOLLOWING) FROM w_t
-- @expect
1	4
2	3
3	3
4	2
5	2
6	3
7	2
8	2
9	2

-- @query win_range_descending
SELECT id, sum(id) OVER (ORDER BY id DESC RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) FROM w_t
-- @expect
1	3
2	5
3	7
4	9
5	11
6	13
7	15
8	17
9	9

-- @query win_groups_frame
SELECT id, count(*) OVER (ORDER BY x NULLS LAST GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM w_t
-- @expect
1	2
2	3
3	3
4	3
5	3
6	2
7	2
8	3
9	1

-- @query win_range_date_interval
SELECT d, count(*) OVER (ORDER BY d RANGE BETWEEN INTERVAL '2' DAY PRECEDING AND CURRENT ROW) FROM (SELECT DATE '2024-01-01' AS d UNION ALL SELECT DATE '2024-01-02' UNION ALL SELECT DATE '2024-01-05') t
-- @expect
2024-01-01	1
2024-01-02	2
2024-01-05	1

-- @query win_min_max_count
SELECT id, min(x) OVER (PARTITION BY g ORDER BY id), max(d) OVER (PARTITION BY g ORDER BY id), count(d) OVER (PARTITION BY g ORDER BY id) FROM w_t
-- @expect
1	10	1.5	1
2	10	2.5	2
3	10	2.5	2
4	NULL	4.0	1
5	50	5.0	2
6	60	6.0	1
7	70	7.0	1
8	70	8.0	2
9	5	5.0	3

-- @query win_over_aggregate
SELECT g, sum(x), rank() OVER (ORDER BY sum(x) DESC NULLS LAST) FROM w_t GROUP BY g
-- @expect
a	50	4
b	55	3
c	60	2
NULL	70	1

-- @query win_aggregate_of_window
SELECT g, max(r) FROM (SELECT g, row_number() OVER (PARTITION BY g ORDER BY id) AS r FROM w_t) t GROUP BY g
-- @expect
a	3
b	3
c	1
NULL	2

-- @query win_share_of_total
SELECT g, sum(id), sum(sum(id)) OVER () FROM w_t GROUP BY g
-- @expect
a	6	45
b	18	45
c	6	45
NULL	15	45

-- @query win_running_sum_of_groups ordered
SELECT g, sum(sum(x)) OVER (ORDER BY g) FROM w_t WHERE g IS NOT NULL GROUP BY g ORDER BY g
-- @expect
a	50
b	105
c	165

-- @query win_two_different_windows
SELECT id, row_number() OVER (PARTITION BY g ORDER BY id), row_number() OVER (ORDER BY x NULLS LAST, id), sum(x) OVER (PARTITION BY id % 2 ORDER BY id) FROM w_t
-- @expect
1	1	2	10
2	2	3	20
3	3	4	30
4	1	8	20
5	2	5	80
6	1	6	80
7	1	7	150
8	2	9	80
9	3	1	155

-- @query win_top_one_per_group
SELECT g, id FROM (SELECT g, id, row_number() OVER (PARTITION BY g ORDER BY x DESC NULLS LAST, id) AS r FROM w_t) t WHERE r = 1
-- @expect
a	2
b	5
c	6
NULL	7

-- @query win_qualify
SELECT id FROM w_t QUALIFY row_number() OVER (PARTITION BY g ORDER BY id) = 2
-- @expect
2
5
8

-- @query win_filter_clause
SELECT id, count(*) FILTER (WHERE x > 15) OVER (ORDER BY id) FROM w_t
-- @expect
1	0
2	1
3	2
4	2
5	3
6	4
7	5
8	5
9	5

-- @query win_empty_table
SELECT id, row_number() OVER (ORDER BY id), sum(x) OVER (PARTITION BY g) FROM w_e
-- @expect

-- @query win_count_over_empty
SELECT count(*) FROM (SELECT row_number() OVER () FROM w_e) t
-- @expect
0

-- @query win_partition_by_two
SELECT id, count(*) OVER (PARTITION BY g, x IS NULL) FROM w_t
-- @expect
1	3
2	3
3	3
4	1
5	2
6	1
7	1
8	1
9	2

-- @query win_partition_by_expression
SELECT id, sum(id) OVER (PARTITION BY id % 3) FROM w_t
-- @expect
1	12
2	15
3	18
4	12
5	15
6	18
7	12
8	15
9	18

-- @query win_big_row_number_checks
SELECT count(*), sum(r), max(r), count(DISTINCT r) FROM (SELECT row_number() OVER (ORDER BY x, id) AS r FROM w_big) t
-- @expect
1500	1125750	1500	1500

-- @query win_big_partitioned
SELECT g, max(r), sum(s) FROM (SELECT g, row_number() OVER (PARTITION BY g ORDER BY x, id) AS r, sum(x) OVER (PARTITION BY g ORDER BY x, id) AS s FROM w_big) t GROUP BY g
-- @expect
0	150	375225
1	150	370896
2	150	373636
3	150	376576
4	150	379716
5	150	383056
6	150	385996
7	150	381328
8	150	376731
9	150	372205

-- @query win_big_lag_gap
SELECT max(gap), min(gap), count(gap) FROM (SELECT id - lag(id) OVER (ORDER BY id) AS gap FROM w_big) t
-- @expect
1	1	1499

-- @query win_big_moving_sum ordered
SELECT id, s FROM (SELECT id, sum(x) OVER (ORDER BY id ROWS BETWEEN 9 PRECEDING AND CURRENT ROW) AS s FROM w_big) t WHERE id % 100 = 0 ORDER BY id
-- @expect
100	625
200	555
300	485
400	415
500	345
600	376
700	407
800	438
900	469
1000	500
1100	531
1200	562
1300	593
1400	624
1500	655

-- @query win_big_first_per_bucket_key
SELECT id, first_value(x) OVER (PARTITION BY id ORDER BY g) FROM w_big WHERE id < 20
-- @expect
1	7
2	14
3	21
4	28
5	35
6	42
7	49
8	56
9	63
10	70
11	77
12	84
13	91
14	98
15	4
16	11
17	18
18	25
19	32

-- @query win_join_inside
SELECT a.id, count(*) OVER (PARTITION BY a.g) FROM w_t a JOIN w_big b ON a.id = b.id
-- @expect
1	3
2	3
3	3
4	3
5	3
6	1
7	2
8	2
9	3

-- @query win_on_join_then_filter
SELECT id, r FROM (SELECT a.id, row_number() OVER (ORDER BY b.x, a.id) AS r FROM w_t a JOIN w_big b ON a.id = b.id) q WHERE r BETWEEN 2 AND 4
-- @expect
2	2
3	3
4	4

-- @query win_distinct_over_window
SELECT DISTINCT count(*) OVER (PARTITION BY g) FROM w_t
-- @expect
1
2
3

-- @query win_array_agg
SELECT id, array_agg(id) OVER (PARTITION BY g ORDER BY id) FROM w_t WHERE g = 'a'
-- @expect
1	[1]
2	[1, 2]
3	[1, 2, 3]

-- @query win_string_agg
SELECT id, string_agg(CAST(id AS VARCHAR), '-') OVER (PARTITION BY g ORDER BY id) FROM w_t WHERE g = 'b'
-- @expect
4	4
5	4-5
9	4-5-9

-- @query win_union_inside
SELECT v, row_number() OVER (ORDER BY v, t) FROM (SELECT id AS v, 1 AS t FROM w_t UNION ALL SELECT x, 2 FROM w_t WHERE x IS NOT NULL) u
-- @expect
1	1
2	2
3	3
4	4
5	5
5	6
6	7
7	8
8	9
9	10
10	11
20	12
20	13
50	14
60	15
70	16

-- @query win_order_by_window ordered
SELECT id FROM w_t ORDER BY row_number() OVER (ORDER BY id DESC)
-- @expect
9
8
7
6
5
4
3
2
1

-- @query win_constant_order
SELECT id, sum(x) OVER (ORDER BY 1) FROM w_t
-- @expect
1	235
2	235
3	235
4	235
5	235
6	235
7	235
8	235
9	235

-- @query win_named_windows_shared rows=9
SELECT id, sum(x) OVER w, avg(x) OVER w, min(x) OVER (PARTITION BY g ORDER BY id ROWS 1 PRECEDING) FROM w_t WINDOW w AS (PARTITION BY g ORDER BY id)

-- The encoding of plans drops the filters of window functions.
-- @query win_filter_partition rows=9
SELECT id, count(*) FILTER (WHERE x > 1) OVER (PARTITION BY g) FROM w_t

-- @query win_filter_running rows=9
SELECT id, sum(x) FILTER (WHERE id > 3) OVER (PARTITION BY g ORDER BY id) FROM w_t

-- @query win_filter_all rows=9
SELECT id, max(x) FILTER (WHERE x < 2) OVER () FROM w_t

-- @query win_filter_sliding rows=9
SELECT id, sum(x) FILTER (WHERE id > 2) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM w_t
