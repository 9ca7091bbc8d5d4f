-- LIMIT, OFFSET and top-k. An unordered LIMIT is only used where the answer does not depend on the choice.

-- @table l_t partition_by=p
CREATE TABLE l_t (id BIGINT, p INT);
INSERT INTO l_t SELECT value, (value - 1) / 5 FROM generate_series(1, 25) AS g(value);

-- @table l_v partition_by=p
CREATE TABLE l_v (v INT, p INT);
INSERT INTO l_v VALUES (10, 0), (30, 0);
INSERT INTO l_v VALUES (20, 1), (40, 1);

-- @table l_e partition_by=bucket(4, id)
CREATE TABLE l_e (id INT);

-- @table l_top partition_by=bucket(4, id)
CREATE TABLE l_top (id BIGINT, a BIGINT, b BIGINT, c VARCHAR);
INSERT INTO l_top SELECT value, value % 7, 100000 - value * 13 % 2003, 'r' || CAST(value AS VARCHAR) FROM generate_series(1, 500) AS g(value);
INSERT INTO l_top SELECT value, value % 7, 50000 - value * 17 % 2003, 'r' || CAST(value AS VARCHAR) FROM generate_series(501, 1000) AS g(value);
INSERT INTO l_top SELECT value, value % 7, 20000 - value * 19 % 2003, 'r' || CAST(value AS VARCHAR) FROM generate_series(1001, 1500) AS g(value);
INSERT INTO l_top SELECT value, value % 7, value * 23 % 2003, 'r' || CAST(value AS VARCHAR) FROM generate_series(1501, 2000) AS g(value);

-- @table l_nul partition_by=bucket(3, id)
CREATE TABLE l_nul (id INT, x INT, f DOUBLE);
INSERT INTO l_nul VALUES (1, 5, 1.5), (2, NULL, 2.5), (3, 3, NULL), (4, NULL, NULL), (5, 9, -1.5), (6, 1, 0.0);

-- @query S11_unordered_limit_counts
SELECT count(*), count(DISTINCT id) FROM (SELECT id FROM l_t LIMIT 10) q
-- @expect
10	10

-- @query S11_unordered_limit_within_table
SELECT count(*) FROM (SELECT id FROM l_t LIMIT 10) q WHERE id BETWEEN 1 AND 25
-- @expect
10

-- @query S11_limit_larger_than_table
SELECT count(*), sum(id) FROM (SELECT id FROM l_t LIMIT 100) q
-- @expect
25	325

-- @query S11_limit_equal_to_table
SELECT count(*), sum(id) FROM (SELECT id FROM l_t LIMIT 25) q
-- @expect
25	325

-- @query S11_limit_over_two_partitions
SELECT count(DISTINCT id) FROM (SELECT id FROM l_t LIMIT 6) q
-- @expect
6

-- @query S11_limit_zero
SELECT id FROM l_t LIMIT 0
-- @expect

-- @query S11_ordered_limit_offset_18 ordered
SELECT id FROM l_t ORDER BY id LIMIT 5 OFFSET 18
-- @expect
19
20
21
22
23

-- @query S11_ordered_offset_23_limit_10 ordered
SELECT id FROM l_t ORDER BY id LIMIT 10 OFFSET 23
-- @expect
24
25

-- @query S11_ordered_offset_30
SELECT id FROM l_t ORDER BY id OFFSET 30
-- @expect

-- @query S11_ordered_offset_30_limit
SELECT id FROM l_t ORDER BY id LIMIT 5 OFFSET 30
-- @expect

-- @query S11_unordered_offset_counts
SELECT count(*), count(DISTINCT id) FROM (SELECT id FROM l_t OFFSET 18) q
-- @expect
7	7

-- @query S11_unordered_limit_offset_counts
SELECT count(*), count(DISTINCT id) FROM (SELECT id FROM l_t LIMIT 5 OFFSET 18) q
-- @expect
5	5

-- @query S11_unordered_limit_offset_at_end
SELECT count(*) FROM (SELECT id FROM l_t LIMIT 10 OFFSET 23) q
-- @expect
2

-- @query S11_unordered_offset_past_end
SELECT count(*) FROM (SELECT id FROM l_t LIMIT 10 OFFSET 30) q
-- @expect
0

-- @query S11_offset_only_ordered ordered
SELECT id FROM l_t ORDER BY id DESC OFFSET 22
-- @expect
3
2
1

-- @query S11_limit_inside_limit ordered
SELECT id FROM (SELECT id FROM l_t ORDER BY id LIMIT 10 OFFSET 5) q ORDER BY id DESC LIMIT 3 OFFSET 1
-- @expect
14
13
12

-- @query S11_limit_with_partition_filter
SELECT count(*) FROM (SELECT id FROM l_t WHERE p = 2 LIMIT 10) q
-- @expect
5

-- @query S11_limit_with_filter
SELECT count(*) FROM (SELECT id FROM l_t WHERE id % 2 = 0 LIMIT 10) q
-- @expect
10

-- @query S11_limit_with_rare_filter
SELECT id FROM l_t WHERE id = 24 LIMIT 10
-- @expect
24

-- @query S11_limit_after_group_by
SELECT count(*) FROM (SELECT p, count(*) FROM l_t GROUP BY p LIMIT 3) q
-- @expect
3

-- @query S11_limit_after_distinct
SELECT count(*) FROM (SELECT DISTINCT p FROM l_t LIMIT 4) q
-- @expect
4

-- @query S11_limit_in_join_side
SELECT count(*) FROM (SELECT id FROM l_t ORDER BY id LIMIT 7) a JOIN l_t b ON a.id = b.id
-- @expect
7

-- @query S11_limit_on_join
SELECT count(*) FROM (SELECT a.id FROM l_t a JOIN l_t b ON a.p = b.p LIMIT 40) q
-- @expect
40

-- @query S11_limit_on_left_join
SELECT count(*) FROM (SELECT a.id FROM l_t a LEFT JOIN l_e b ON a.id = b.id LIMIT 11) q
-- @expect
11

-- @query S11_limit_on_cross_join
SELECT count(*) FROM (SELECT a.id FROM l_t a CROSS JOIN l_t b LIMIT 600 OFFSET 30) q
-- @expect
595

-- @query S11_limit_union_all
SELECT count(*) FROM (SELECT id FROM l_t UNION ALL SELECT id FROM l_t LIMIT 30 OFFSET 25) q
-- @expect
25

-- @query S11_limit_union_ordered ordered
SELECT id FROM l_t UNION ALL SELECT id + 100 FROM l_t ORDER BY id LIMIT 4 OFFSET 23
-- @expect
24
25
101
102

-- @query S11_limit_of_empty
SELECT id FROM l_e LIMIT 5
-- @expect

-- @query S11_limit_in_in_subquery
SELECT count(*) FROM l_t WHERE id IN (SELECT id FROM l_t ORDER BY id DESC LIMIT 6)
-- @expect
6

-- @query S11_limit_aggregate_above
SELECT sum(id), min(id), max(id) FROM (SELECT id FROM l_t ORDER BY id DESC LIMIT 5 OFFSET 5) q
-- @expect
90	16	20

-- @query S11_limit_zero_aggregate
SELECT count(*), sum(id) FROM (SELECT id FROM l_t LIMIT 0) q
-- @expect
0	NULL

-- @query S11_order_by_other_column ordered
SELECT id, p FROM l_t ORDER BY p DESC, id LIMIT 3
-- @expect
21	4
22	4
23	4

-- @query S11_limit_with_having ordered
SELECT p, sum(id) FROM l_t GROUP BY p HAVING sum(id) > 20 ORDER BY sum(id) DESC LIMIT 2 OFFSET 1
-- @expect
3	90
2	65

-- @query S13_lead_and_limit ordered
SELECT v, lead(v) OVER (ORDER BY v) FROM l_v ORDER BY v LIMIT 3
-- @expect
10	20
20	30
30	40

-- @query S13_lead_only_and_limit ordered
SELECT l FROM (SELECT v, lead(v) OVER (ORDER BY v) AS l FROM l_v) q ORDER BY v LIMIT 3
-- @expect
20
30
40

-- @query S13_lead_two_and_limit ordered
SELECT v, lead(v, 2) OVER (ORDER BY v) FROM l_v ORDER BY v LIMIT 2
-- @expect
10	30
20	40

-- @query S13_lag_descending_and_limit ordered
SELECT v, lag(v) OVER (ORDER BY v) FROM l_v ORDER BY v DESC LIMIT 2
-- @expect
40	30
30	20

-- @query S13_sum_over_following_and_limit ordered
SELECT v, sum(v) OVER (ORDER BY v ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) FROM l_v ORDER BY v LIMIT 2
-- @expect
10	100
20	90

-- @query S13_row_number_filter ordered
SELECT v FROM (SELECT v, row_number() OVER (ORDER BY v DESC) AS r FROM l_v) q WHERE r <= 3 ORDER BY v
-- @expect
20
30
40

-- @query S13_count_over_all_and_limit ordered
SELECT v, count(*) OVER () FROM l_v ORDER BY v LIMIT 1
-- @expect
10	4

-- @query S13_lead_per_partition_and_limit ordered
SELECT p, v, lead(v) OVER (PARTITION BY p ORDER BY v) FROM l_v ORDER BY p, v LIMIT 3
-- @expect
0	10	30
0	30	NULL
1	20	40

-- @query S16_top_k_with_filter ordered
SELECT id, b FROM l_top WHERE a = 3 ORDER BY b, id LIMIT 10
-- @expect
1655	8
1830	27
1571	79
1746	98
1921	117
1662	169
1837	188
1578	240
1753	259
1928	278

-- @query S16_top_k_with_filter_is_distinct
SELECT count(*), count(DISTINCT id) FROM (SELECT id FROM l_top WHERE a = 3 ORDER BY b, id LIMIT 50) q
-- @expect
50	50

-- @query S16_top_k_descending ordered
SELECT id, b, c FROM l_top WHERE a <> 0 ORDER BY b DESC, id LIMIT 7
-- @expect
463	99990	r463
309	99989	r309
155	99988	r155
1	99987	r1
464	99977	r464
310	99976	r310
156	99975	r156

-- @query S16_top_k_push_down_off ordered
-- @set datafusion.optimizer.enable_dynamic_filter_pushdown=false
SELECT id, b FROM l_top WHERE a = 3 ORDER BY b, id LIMIT 10
-- @expect
1655	8
1830	27
1571	79
1746	98
1921	117
1662	169
1837	188
1578	240
1753	259
1928	278

-- @query S16_top_k_no_filter ordered
SELECT id, b FROM l_top ORDER BY b, id LIMIT 5
-- @expect
1916	2
1829	4
1742	6
1655	8
1568	10

-- @query S16_top_k_string_key ordered
SELECT c FROM l_top WHERE a = 1 ORDER BY c DESC LIMIT 5
-- @expect
r995
r99
r988
r981
r974

-- @query S16_top_k_two_keys ordered
SELECT a, b, id FROM l_top ORDER BY a DESC, b, id LIMIT 6
-- @expect
6	6	1742
6	25	1917
6	77	1658
6	96	1833
6	148	1574
6	167	1749

-- @query S16_top_k_expression_key ordered
SELECT id, b FROM l_top ORDER BY abs(b - 49000), id LIMIT 5
-- @expect
648	48999
530	49002
766	48996
884	48993
883	49010

-- @query S16_top_k_last_chunk_only ordered
SELECT id, b FROM l_top WHERE id > 1500 ORDER BY b, id LIMIT 3
-- @expect
1916	2
1829	4
1742	6

-- @query S16_top_k_under_aggregate
SELECT sum(id), sum(b), count(*) FROM (SELECT id, b FROM l_top WHERE a IN (2, 5) ORDER BY b, id LIMIT 100) q
-- @expect
174328	73649	100

-- @query S16_top_k_join ordered
SELECT x.id, x.b FROM l_top x JOIN l_t y ON x.id = y.id ORDER BY x.b, x.id LIMIT 4
-- @expect
25	99675
24	99688
23	99701
22	99714

-- @query S16_top_k_offset ordered
SELECT id FROM l_top ORDER BY b DESC, id LIMIT 5 OFFSET 700
-- @expect
635
753
871
989
518

-- @query S16_top_k_groups ordered
SELECT a, max(b) FROM l_top GROUP BY a ORDER BY max(b) DESC, a LIMIT 3
-- @expect
1	99990
2	99977
3	99964

-- @query S16_top_k_group_limit ordered
SELECT id % 100 AS g, min(b) AS m FROM l_top GROUP BY id % 100 ORDER BY m, g LIMIT 5
-- @expect
16	2
29	4
42	6
55	8
68	10

-- @query topk_nulls_first ordered
SELECT id, x FROM l_nul ORDER BY x NULLS FIRST, id LIMIT 3
-- @expect
2	NULL
4	NULL
6	1

-- @query topk_nulls_last ordered
SELECT id, x FROM l_nul ORDER BY x DESC NULLS LAST, id LIMIT 5
-- @expect
5	9
1	5
3	3
6	1
2	NULL

-- @query order_default_nulls_asc ordered
SELECT id, f FROM l_nul ORDER BY f ASC NULLS LAST, id
-- @expect
5	-1.5
6	0.0
1	1.5
2	2.5
3	NULL
4	NULL

-- @query order_by_default_nulls_both_ways ordered rows=6
SELECT id FROM l_nul ORDER BY x DESC, id

-- @query order_by_position ordered
SELECT x, id FROM l_nul ORDER BY 2 DESC LIMIT 2
-- @expect
1	6
9	5

-- @query order_by_alias ordered
SELECT id, -id AS neg FROM l_nul ORDER BY neg LIMIT 2
-- @expect
6	-6
5	-5

-- @query order_by_not_selected ordered
SELECT id FROM l_nul WHERE x IS NOT NULL ORDER BY x
-- @expect
6
3
1
5

-- @query order_by_expression ordered
SELECT id FROM l_nul ORDER BY coalesce(x, 4), id
-- @expect
6
3
2
4
1
5

-- @query order_by_many_rows ordered
SELECT id FROM l_top WHERE id % 50 = 0 ORDER BY id DESC
-- @expect
2000
1950
1900
1850
1800
1750
1700
1650
1600
1550
1500
1450
1400
1350
1300
1250
1200
1150
1100
1050
1000
950
900
850
800
750
700
650
600
550
500
450
400
350
300
250
200
150
100
50

-- @query order_full_table ordered rows=285
SELECT id, a FROM l_top WHERE a = 6 ORDER BY b DESC, id

-- @query distinct_on ordered
SELECT DISTINCT ON (p) p, id FROM l_t ORDER BY p, id DESC
-- @expect
0	5
1	10
2	15
3	20
4	25

-- @query distinct_on_two ordered
SELECT DISTINCT ON (a) a, id, b FROM l_top ORDER BY a, b, id
-- @expect
0	1568	10
1	1569	33
2	1829	4
3	1655	8
4	1656	31
5	1916	2
6	1742	6

-- @query distinct_rows
SELECT DISTINCT a FROM l_top
-- @expect
0
1
2
3
4
5
6

-- @query distinct_with_nulls
SELECT DISTINCT x IS NULL, f IS NULL FROM l_nul
-- @expect
false	false
false	true
true	false
true	true

-- @query distinct_then_order_limit ordered
SELECT DISTINCT a FROM l_top ORDER BY a DESC LIMIT 2
-- @expect
6
5
