-- Joins and aggregates on the bucket key, on a superset of it, and across bucket counts and layouts.

-- @table co_o partition_by=bucket(8, ok)
CREATE TABLE co_o (ok BIGINT, ck BIGINT, price DECIMAL(12,2), odate DATE);
INSERT INTO co_o SELECT value, value % 23, CAST(value * 3 AS DECIMAL(12,2)), CAST('1995-01-01' AS DATE) + CAST(value % 700 AS INT) FROM generate_series(1, 800) AS g(value);

-- @table co_l partition_by=bucket(8, ok)
CREATE TABLE co_l (ok BIGINT, ln INT, qty BIGINT, pk BIGINT);
INSERT INTO co_l SELECT 1 + value % 800, CAST(value / 800 AS INT), value % 50, value % 41 FROM generate_series(0, 2399) AS g(value);

-- @table co_l4 partition_by=bucket(4, ok)
CREATE TABLE co_l4 (ok BIGINT, ln INT, qty BIGINT, pk BIGINT);
INSERT INTO co_l4 SELECT ok, ln, qty, pk FROM co_l;

-- @table co_l5 partition_by=bucket(5, ok)
CREATE TABLE co_l5 (ok INT, ln INT, qty BIGINT, pk BIGINT);
INSERT INTO co_l5 SELECT ok, ln, qty, pk FROM co_l;

-- @table co_pk partition_by=bucket(8, pk)
CREATE TABLE co_pk (ok BIGINT, ln INT, qty BIGINT, pk BIGINT);
INSERT INTO co_pk SELECT ok, ln, qty, pk FROM co_l;

-- @table co_c
CREATE TABLE co_c (ck BIGINT, name VARCHAR, nation VARCHAR);
INSERT INTO co_c SELECT value, 'c' || CAST(value AS VARCHAR), CASE WHEN value % 3 = 0 THEN 'BE' WHEN value % 3 = 1 THEN 'NL' ELSE 'LU' END FROM generate_series(0, 24) AS g(value);

-- @table co_n partition_by=nation
CREATE TABLE co_n (nation VARCHAR, region VARCHAR);
INSERT INTO co_n VALUES ('BE', 'west'), ('NL', 'west'), ('LU', 'south'), ('FR', 'south');

-- @query co_join_same_buckets
SELECT count(*), sum(l.qty), sum(o.price) FROM co_o o JOIN co_l l ON o.ok = l.ok
-- @expect
2400	58800	2883600.00

-- @query co_join_four_buckets
SELECT count(*), sum(l.qty), sum(o.price) FROM co_o o JOIN co_l4 l ON o.ok = l.ok
-- @expect
2400	58800	2883600.00

-- @query co_join_five_buckets_other_type
SELECT count(*), sum(l.qty), sum(o.price) FROM co_o o JOIN co_l5 l ON o.ok = l.ok
-- @expect
2400	58800	2883600.00

-- @query co_join_other_bucket_column
SELECT count(*), sum(l.qty), sum(o.price) FROM co_o o JOIN co_pk l ON o.ok = l.ok
-- @expect
2400	58800	2883600.00

-- @query co_join_superset_of_key
SELECT count(*), sum(a.qty + b.qty) FROM co_l a JOIN co_l4 b ON a.ok = b.ok AND a.ln = b.ln
-- @expect
2400	117600

-- @query co_join_superset_with_filter
SELECT count(*) FROM co_l a JOIN co_l5 b ON a.ok = b.ok AND a.ln = b.ln AND a.qty > b.pk
-- @expect
1359

-- @query co_left_join_with_filter
SELECT count(*), count(l.ok) FROM co_o o LEFT JOIN co_l l ON o.ok = l.ok AND l.qty > 45
-- @expect
928	192

-- @query co_left_join_other_layout
SELECT count(*), count(l.ok) FROM co_o o LEFT JOIN co_pk l ON o.ok = l.ok AND l.qty > 45
-- @expect
928	192

-- @query co_full_join_shifted
SELECT count(*), count(a.ok), count(b.ok) FROM co_o a FULL JOIN co_o b ON a.ok = b.ok + 100
-- @expect
900	800	800

-- @query co_semi_same_buckets
SELECT count(*) FROM co_o WHERE ok IN (SELECT ok FROM co_l WHERE qty = 7)
-- @expect
16

-- @query co_anti_same_buckets
SELECT count(*) FROM co_o o WHERE NOT EXISTS (SELECT 1 FROM co_l l WHERE l.ok = o.ok AND l.qty < 25)
-- @expect
400

-- @query co_anti_other_layout
SELECT count(*) FROM co_o o WHERE NOT EXISTS (SELECT 1 FROM co_pk l WHERE l.ok = o.ok AND l.qty < 25)
-- @expect
400

-- @query co_not_in_same_buckets
SELECT count(*) FROM co_o WHERE ok NOT IN (SELECT ok FROM co_l4 WHERE pk < 20)
-- @expect
0

-- @query co_aggregate_on_key
SELECT count(*), sum(c), min(c), max(c), sum(q) FROM (SELECT ok, count(*) AS c, sum(qty) AS q FROM co_l GROUP BY ok) t
-- @expect
800	2400	3	3	58800

-- @query co_aggregate_on_superset_of_key
SELECT count(*), sum(c), max(c) FROM (SELECT ok, ln, count(*) AS c FROM co_l GROUP BY ok, ln) t
-- @expect
2400	2400	1

-- @query co_aggregate_on_other_column rows=41
SELECT pk, count(*), sum(qty) FROM co_l GROUP BY pk

-- @query co_aggregate_on_bucketed_pk rows=41
SELECT pk, count(*), sum(qty) FROM co_pk GROUP BY pk

-- @query co_aggregate_then_join_on_key
SELECT count(*), sum(t.q) FROM co_o o JOIN (SELECT ok, sum(qty) AS q FROM co_l GROUP BY ok) t ON o.ok = t.ok WHERE o.price > 1200
-- @expect
400	29400

-- @query co_join_then_aggregate_on_key
SELECT count(*), sum(s) FROM (SELECT o.ok, sum(l.qty * o.price) AS s FROM co_o o JOIN co_l l ON o.ok = l.ok GROUP BY o.ok) t
-- @expect
800	72147600.00

-- @query co_join_then_aggregate_on_other
SELECT o.ck, count(*), sum(l.qty) FROM co_o o JOIN co_l l ON o.ok = l.ok GROUP BY o.ck
-- @expect
0	102	2553
1	105	2655
2	105	2610
3	105	2565
4	105	2670
5	105	2625
6	105	2580
7	105	2535
8	105	2640
9	105	2595
10	105	2550
11	105	2505
12	105	2610
13	105	2565
14	105	2520
15	105	2475
16	105	2580
17	105	2535
18	105	2490
19	102	2445
20	102	2547
21	102	2499
22	102	2451

-- @query co_distinct_key
SELECT count(*) FROM (SELECT DISTINCT ok FROM co_l) t
-- @expect
800

-- @query co_count_distinct_key
SELECT count(DISTINCT ok), count(DISTINCT pk), count(DISTINCT ln) FROM co_l
-- @expect
800	41	3

-- @query co_count_distinct_key_grouped rows=41
SELECT pk, count(DISTINCT ok) FROM co_l GROUP BY pk

-- @query co_window_on_key
SELECT count(*), sum(r) FROM (SELECT row_number() OVER (PARTITION BY ok ORDER BY ln) AS r FROM co_l) t
-- @expect
2400	4800

-- @query co_window_on_other
SELECT count(*), max(r) FROM (SELECT row_number() OVER (PARTITION BY pk ORDER BY ok, ln) AS r FROM co_l) t
-- @expect
2400	59

-- @query co_three_way
SELECT c.nation, count(*), sum(l.qty) FROM co_c c JOIN co_o o ON c.ck = o.ck JOIN co_l l ON o.ok = l.ok GROUP BY c.nation
-- @expect
BE	834	20367
LU	732	17982
NL	834	20451

-- @query co_four_way ordered
SELECT n.region, c.nation, sum(o.price) AS p FROM co_c c JOIN co_o o ON c.ck = o.ck JOIN co_l l ON o.ok = l.ok JOIN co_n n ON c.nation = n.nation WHERE l.qty < 10 GROUP BY n.region, c.nation ORDER BY p DESC, c.nation
-- @expect
west	NL	194067.00
west	BE	193563.00
south	LU	160290.00

-- @query co_small_table_left_join
SELECT c.name, count(o.ok) FROM co_c c LEFT JOIN co_o o ON c.ck = o.ck GROUP BY c.name
-- @expect
c0	34
c1	35
c10	35
c11	35
c12	35
c13	35
c14	35
c15	35
c16	35
c17	35
c18	35
c19	34
c2	35
c20	34
c21	34
c22	34
c23	0
c24	0
c3	35
c4	35
c5	35
c6	35
c7	35
c8	35
c9	35

-- @query co_point_on_key
SELECT l.ln, l.qty, o.price FROM co_o o JOIN co_l l ON o.ok = l.ok WHERE o.ok = 77
-- @expect
0	26	231.00
1	26	231.00
2	26	231.00

-- @query co_point_on_key_in
SELECT count(*) FROM co_l WHERE ok IN (1, 2, 3, 799, 800, 801)
-- @expect
15

-- @query co_range_on_key
SELECT count(*) FROM co_l WHERE ok > 790
-- @expect
30

-- @query co_key_expression_join
SELECT count(*) FROM co_o a JOIN co_o b ON a.ok = b.ok * 2
-- @expect
400

-- @query co_key_joined_with_non_key
SELECT count(*) FROM co_o o JOIN co_l l ON o.ck = l.ok
-- @expect
2298

-- @query co_union_of_layouts
SELECT count(*), count(DISTINCT ok) FROM (SELECT ok FROM co_l UNION ALL SELECT ok FROM co_l4 UNION ALL SELECT ok FROM co_l5 UNION ALL SELECT ok FROM co_pk) u
-- @expect
9600	800

-- @query co_layouts_hold_the_same_rows
SELECT count(*) FROM (SELECT ok, ln, qty, pk FROM co_l INTERSECT SELECT ok, ln, qty, pk FROM co_l4 INTERSECT SELECT ok, ln, qty, pk FROM co_l5 INTERSECT SELECT ok, ln, qty, pk FROM co_pk) t
-- @expect
2400

-- @query co_group_union_of_layouts
SELECT ok, count(*) FROM (SELECT ok FROM co_l UNION ALL SELECT ok FROM co_pk) u WHERE ok < 4 GROUP BY ok
-- @expect
1	6
2	6
3	6

-- @query co_self_join_three
SELECT count(*) FROM co_l a JOIN co_l b ON a.ok = b.ok JOIN co_l c ON b.ok = c.ok
-- @expect
21600

-- @query co_correlated_on_key
SELECT count(*) FROM co_l a WHERE qty > (SELECT avg(qty) FROM co_l b WHERE b.pk = a.pk)
-- @expect
1200

-- @query co_q18_shape ordered
SELECT o.ok, o.price, sum(l.qty) FROM co_o o JOIN co_l l ON o.ok = l.ok WHERE o.ok IN (SELECT ok FROM co_l GROUP BY ok HAVING sum(qty) > 145) GROUP BY o.ok, o.price ORDER BY o.price DESC, o.ok LIMIT 5
-- @expect
800	2400.00	147
750	2250.00	147
700	2100.00	147
650	1950.00	147
600	1800.00	147

-- @query co_q4_shape
SELECT extract(year FROM odate) AS y, count(*) FROM co_o o WHERE EXISTS (SELECT 1 FROM co_l l WHERE l.ok = o.ok AND l.qty > 40) GROUP BY extract(year FROM odate)
-- @expect
1995	82
1996	62

-- @query co_q21_shape
SELECT count(*) FROM co_l l1 WHERE EXISTS (SELECT 1 FROM co_l l2 WHERE l2.ok = l1.ok AND l2.pk <> l1.pk) AND NOT EXISTS (SELECT 1 FROM co_l l3 WHERE l3.ok = l1.ok AND l3.pk <> l1.pk AND l3.qty > l1.qty + 20)
-- @expect
2400

-- @query co_q17_shape
SELECT sum(l.qty) FROM co_l l JOIN co_c c ON l.pk = c.ck WHERE c.nation = 'BE' AND l.qty < (SELECT avg(i.qty) FROM co_l i WHERE i.pk = c.ck)
-- @expect
3161

-- @query co_q13_shape
SELECT c_count, count(*) FROM (SELECT c.ck, count(o.ok) AS c_count FROM co_c c LEFT JOIN co_o o ON c.ck = o.ck AND o.price > 600 GROUP BY c.ck) t GROUP BY c_count
-- @expect
0	2
26	21
27	2
