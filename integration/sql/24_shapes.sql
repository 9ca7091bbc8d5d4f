-- Plan shapes: deep nesting, many joins, wide unions, projections without columns, mixed operators.

-- @table sh_f partition_by=bucket(6, id)
CREATE TABLE sh_f (id BIGINT, a BIGINT, b BIGINT, c BIGINT, v BIGINT);
INSERT INTO sh_f SELECT value, value % 5, value % 7, value % 11, value * 31 % 1009 FROM generate_series(1, 1000) AS g(value);

-- @table sh_a
CREATE TABLE sh_a (k BIGINT, n VARCHAR);
INSERT INTO sh_a VALUES (0, 'a0'), (1, 'a1'), (2, 'a2'), (3, 'a3'), (4, 'a4');

-- @table sh_b partition_by=k
CREATE TABLE sh_b (k BIGINT, n VARCHAR);
INSERT INTO sh_b VALUES (0, 'b0'), (1, 'b1'), (2, 'b2'), (3, 'b3'), (5, 'b5');

-- @table sh_c partition_by=bucket(2, k)
CREATE TABLE sh_c (k BIGINT, n VARCHAR);
INSERT INTO sh_c SELECT value, 'c' || CAST(value AS VARCHAR) FROM generate_series(0, 10) AS g(value);

-- @query shape_star_join
SELECT a.n, b.n, count(*), sum(f.v) FROM sh_f f JOIN sh_a a ON f.a = a.k JOIN sh_b b ON f.b = b.k JOIN sh_c c ON f.c = c.k WHERE c.k < 3 GROUP BY a.n, b.n
-- @expect
a0	b0	8	4075
a0	b1	7	3163
a0	b2	7	3336
a0	b3	8	3929
a0	b5	8	2993
a1	b0	7	2869
a1	b1	9	3248
a1	b2	8	4712
a1	b3	8	4189
a1	b5	7	3532
a2	b0	8	2881
a2	b1	8	4376
a2	b2	8	3963
a2	b3	7	3065
a2	b5	9	4299
a3	b0	7	3434
a3	b1	7	3607
a3	b2	8	4527
a3	b3	8	3105
a3	b5	8	4077
a4	b0	8	3815
a4	b1	8	4301
a4	b2	8	2769
a4	b3	8	4374
a4	b5	7	2967

-- @query shape_star_left_joins
SELECT count(*), count(a.n), count(b.n), count(c.n) FROM sh_f f LEFT JOIN sh_a a ON f.a = a.k AND a.k > 2 LEFT JOIN sh_b b ON f.b = b.k LEFT JOIN sh_c c ON f.c = c.k AND c.k = 5
-- @expect
1000	400	714	91

-- @query shape_eight_way_join
SELECT count(*) FROM sh_a a1 JOIN sh_b b1 ON a1.k = b1.k JOIN sh_c c1 ON b1.k = c1.k JOIN sh_a a2 ON c1.k = a2.k JOIN sh_b b2 ON a2.k = b2.k JOIN sh_c c2 ON b2.k = c2.k JOIN sh_a a3 ON c2.k = a3.k JOIN sh_b b3 ON a3.k = b3.k
-- @expect
4

-- @query shape_union_of_aggregated_joins
SELECT t, sum(s) FROM (SELECT 'a' AS t, sum(f.v) AS s FROM sh_f f JOIN sh_a a ON f.a = a.k UNION ALL SELECT 'b', sum(f.v) FROM sh_f f JOIN sh_b b ON f.b = b.k UNION ALL SELECT 'c', sum(f.v) FROM sh_f f JOIN sh_c c ON f.c = c.k) u GROUP BY t
-- @expect
a	501580
b	358269
c	501580

-- @query shape_wide_union
SELECT count(*), sum(k) FROM (SELECT k FROM sh_a UNION ALL SELECT k FROM sh_b UNION ALL SELECT k FROM sh_c UNION ALL SELECT k FROM sh_a UNION ALL SELECT k FROM sh_b UNION ALL SELECT k FROM sh_c UNION ALL SELECT k FROM sh_a UNION ALL SELECT k FROM sh_b UNION ALL SELECT k FROM sh_c UNION ALL SELECT k FROM sh_a UNION ALL SELECT k FROM sh_b UNION ALL SELECT k FROM sh_c UNION ALL SELECT k FROM sh_a UNION ALL SELECT k FROM sh_b UNION ALL SELECT k FROM sh_c UNION ALL SELECT k FROM sh_a UNION ALL SELECT k FROM sh_b UNION ALL SELECT k FROM sh_c UNION ALL SELECT k FROM sh_a UNION ALL SELECT k FROM sh_b UNION ALL SELECT k FROM sh_c UNION ALL SELECT k FROM sh_a UNION ALL SELECT k FROM sh_b UNION ALL SELECT k FROM sh_c UNION ALL SELECT k FROM sh_a UNION ALL SELECT k FROM sh_b UNION ALL SELECT k FROM sh_c UNION ALL SELECT k FROM sh_a UNION ALL SELECT k FROM sh_b UNION ALL SELECT k FROM sh_c UNION ALL SELECT k FROM sh_a UNION ALL SELECT k FROM sh_b UNION ALL SELECT k FROM sh_c UNION ALL SELECT k FROM sh_a UNION ALL SELECT k FROM sh_b UNION ALL SELECT k FROM sh_c) u
-- @expect
252	912

-- @query shape_deep_nesting
SELECT count(*) FROM (SELECT * FROM (SELECT * FROM (SELECT * FROM (SELECT id, v FROM sh_f WHERE v > 100) a WHERE v > 200) b WHERE v > 300) c WHERE v > 400) d
-- @expect
600

-- @query shape_aggregate_of_aggregate_of_aggregate
SELECT max(m), count(*) FROM (SELECT a, max(s) AS m FROM (SELECT a, b, sum(v) AS s FROM sh_f GROUP BY a, b) x GROUP BY a) y
-- @expect
15539	5

-- @query shape_many_in_values
SELECT count(*), sum(id) FROM sh_f WHERE id IN (3, 10, 17, 24, 31, 38, 45, 52, 59, 66, 73, 80, 87, 94, 101, 108, 115, 122, 129, 136, 143, 150, 157, 164, 171, 178, 185, 192, 199, 206, 213, 220, 227, 234, 241, 248, 255, 262, 269, 276, 283, 290, 297, 304, 311, 318, 325, 332, 339, 346, 353, 360, 367, 374, 381, 388, 395, 402, 409, 416, 423, 430, 437, 444, 451, 458, 465, 472, 479, 486, 493, 500, 507, 514, 521, 528, 535, 542, 549, 556, 563, 570, 577, 584, 591, 598, 605, 612, 619, 626, 633, 640, 647, 654, 661, 668, 675, 682, 689, 696, 703, 710, 717, 724, 731, 738, 745, 752, 759, 766, 773, 780, 787, 794, 801, 808, 815, 822, 829, 836, 843, 850, 857, 864, 871, 878, 885, 892, 899, 906, 913, 920, 927, 934, 941, 948, 955, 962, 969, 976, 983, 990, 997, 1004, 1011, 1018, 1025, 1032, 1039, 1046, 1053, 1060, 1067, 1074, 1081, 1088, 1095, 1102, 1109, 1116, 1123, 1130, 1137, 1144, 1151, 1158, 1165, 1172, 1179, 1186, 1193)
-- @expect
143	71500

-- @query shape_no_columns_join
SELECT count(*) FROM sh_f f JOIN sh_a a ON f.a = a.k
-- @expect
1000

-- @query shape_no_columns_cross
SELECT count(*) FROM sh_a CROSS JOIN sh_b CROSS JOIN sh_c
-- @expect
275

-- @query shape_constant_columns
SELECT 1 AS one, 'x' AS x, k FROM sh_b WHERE k > 2
-- @expect
1	x	3
1	x	5

-- @query shape_same_column_twice
SELECT k, k AS k2, n, n AS n2 FROM sh_b WHERE k = 5
-- @expect
5	5	b5	b5

-- @query shape_filter_on_projection
SELECT q.d FROM (SELECT id * 2 AS d FROM sh_f) q WHERE d BETWEEN 10 AND 14
-- @expect
10
12
14

-- @query shape_having_on_join
SELECT a.n FROM sh_f f JOIN sh_a a ON f.a = a.k GROUP BY a.n HAVING count(*) = 200 AND min(f.id) <= 3
-- @expect
a1
a2
a3

-- @query shape_semi_anti_mixed
SELECT count(*) FROM sh_f f WHERE f.a IN (SELECT k FROM sh_b) AND f.b NOT IN (SELECT k FROM sh_b) AND EXISTS (SELECT 1 FROM sh_c c WHERE c.k = f.c AND c.k <> 5)
-- @expect
209

-- @query shape_window_then_join
SELECT a.n, q.id FROM (SELECT id, a, row_number() OVER (PARTITION BY a ORDER BY v DESC, id) AS r FROM sh_f) q JOIN sh_a a ON q.a = a.k WHERE r = 1
-- @expect
a0	65
a1	716
a2	32
a3	358
a4	64

-- @query shape_topk_then_join ordered
SELECT q.id, c.n FROM (SELECT id, c, v FROM sh_f ORDER BY v DESC, id LIMIT 6) q JOIN sh_c c ON q.c = c.k ORDER BY q.v DESC, q.id
-- @expect
358	c6
716	c1
65	c10
423	c5
781	c0
130	c9

-- @query shape_group_then_topk_then_group
SELECT count(*), sum(s) FROM (SELECT c, sum(v) AS s FROM sh_f GROUP BY c ORDER BY s DESC, c LIMIT 4) q
-- @expect
4	188313

-- @query shape_union_then_join_then_group
SELECT u.src, c.n, count(*) FROM (SELECT 'f' AS src, c AS k FROM sh_f WHERE id < 50 UNION ALL SELECT 'b', k FROM sh_b) u JOIN sh_c c ON u.k = c.k GROUP BY u.src, c.n
-- @expect
b	c0	1
b	c1	1
b	c2	1
b	c3	1
b	c5	1
f	c0	4
f	c1	5
f	c10	4
f	c2	5
f	c3	5
f	c4	5
f	c5	5
f	c6	4
f	c7	4
f	c8	4
f	c9	4

-- @query shape_distinct_then_join
SELECT count(*) FROM (SELECT DISTINCT a, b FROM sh_f) x JOIN (SELECT DISTINCT b, c FROM sh_f) y ON x.b = y.b
-- @expect
385

-- @query shape_self_union_intersect
SELECT count(*) FROM (SELECT a, b FROM sh_f INTERSECT SELECT b, a FROM sh_f) q
-- @expect
25

-- @query shape_full_join_of_aggregates
SELECT x.k, x.c, y.k, y.c FROM (SELECT b AS k, count(*) AS c FROM sh_f GROUP BY b) x FULL JOIN (SELECT c AS k, count(*) AS c FROM sh_f GROUP BY c) y ON x.k = y.k
-- @expect
0	142	0	90
1	143	1	91
2	143	2	91
3	143	3	91
4	143	4	91
5	143	5	91
6	143	6	91
NULL	NULL	7	91
NULL	NULL	8	91
NULL	NULL	9	91
NULL	NULL	10	91

-- @query shape_correlated_over_join
SELECT x.n FROM sh_a x WHERE (SELECT count(*) FROM sh_f f JOIN sh_b y ON f.b = y.k WHERE f.a = x.k) > 142
-- @expect
a0
a2
a4

-- @query shape_case_aggregate_pivot
SELECT a, sum(CASE WHEN b = 0 THEN v ELSE 0 END), sum(CASE WHEN b = 1 THEN v ELSE 0 END), count(CASE WHEN b > 1 THEN 1 END) FROM sh_f GROUP BY a
-- @expect
0	13703	15080	143
1	13659	13593	143
2	13942	14527	143
3	14690	14841	143
4	14181	14549	143

-- @query shape_count_distinct_over_join
SELECT a.n, count(DISTINCT f.c), count(DISTINCT f.b) FROM sh_f f JOIN sh_a a ON f.a = a.k GROUP BY a.n
-- @expect
a0	11	7
a1	11	7
a2	11	7
a3	11	7
a4	11	7

-- @query shape_group_by_all_columns
SELECT count(*) FROM (SELECT id, a, b, c, v FROM sh_f GROUP BY id, a, b, c, v) q
-- @expect
1000

-- @query shape_large_result rows=1000
SELECT * FROM sh_f

-- @query shape_large_result_ordered ordered rows=1000
SELECT id, v FROM sh_f ORDER BY v, id

-- @query shape_cross_of_aggregates
SELECT x.m - y.m FROM (SELECT max(v) AS m FROM sh_f) x CROSS JOIN (SELECT min(v) AS m FROM sh_f) y
-- @expect
1007

-- @query shape_left_join_of_union_with_empty
SELECT a.k, u.k FROM sh_a a LEFT JOIN (SELECT k FROM sh_b WHERE k > 2 UNION ALL SELECT k FROM sh_c WHERE false) u ON a.k = u.k
-- @expect
0	NULL
1	NULL
2	NULL
3	3
4	NULL
