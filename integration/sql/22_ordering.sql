-- Rows that are stored in key order: groups and sorts must not rely on an order that ends at a partition's border (case S14).

-- @table or_t partition_by=bucket(3, pk)
CREATE TABLE or_t (pk BIGINT, g BIGINT, v BIGINT);
INSERT INTO or_t SELECT value, value / 40, value % 7 FROM generate_series(0, 399) AS g(value);

-- @table or_range partition_by=p
CREATE TABLE or_range (p INT, g INT, pk INT, s VARCHAR);
INSERT INTO or_range SELECT 0, value / 10, value, 'k' || lpad(CAST(value AS VARCHAR), 4, '0') FROM generate_series(0, 59) AS g(value);
INSERT INTO or_range SELECT 1, value / 10, value, 'k' || lpad(CAST(value AS VARCHAR), 4, '0') FROM generate_series(30, 89) AS g(value);
INSERT INTO or_range SELECT 2, value / 10, value, 'k' || lpad(CAST(value AS VARCHAR), 4, '0') FROM generate_series(60, 119) AS g(value);

-- @query S14_group_by_prefix ordered
SELECT g, count(*) FROM or_t GROUP BY g ORDER BY g
-- @expect
0	40
1	40
2	40
3	40
4	40
5	40
6	40
7	40
8	40
9	40

-- @query S14_group_by_prefix_over_partitions ordered
SELECT g, count(*), min(pk), max(pk) FROM or_range GROUP BY g ORDER BY g
-- @expect
0	10	0	9
1	10	10	19
2	10	20	29
3	20	30	39
4	20	40	49
5	20	50	59
6	20	60	69
7	20	70	79
8	20	80	89
9	10	90	99
10	10	100	109
11	10	110	119

-- @query S14_group_by_prefix_count_of_groups
SELECT count(*), count(DISTINCT g) FROM (SELECT g, count(*) FROM or_range GROUP BY g) q
-- @expect
12	12

-- @query S14_order_under_join ordered
SELECT t.pk, r.p FROM or_t t JOIN or_range r ON t.pk = r.pk WHERE t.pk BETWEEN 28 AND 31 ORDER BY t.pk, r.p
-- @expect
28	0
29	0
30	0
30	1
31	0
31	1

-- @query S14_order_under_join_all ordered rows=180
SELECT t.pk, t.g, r.p FROM or_t t JOIN or_range r ON t.pk = r.pk ORDER BY t.pk, r.p

-- @query S14_order_by_pk ordered rows=400
SELECT pk FROM or_t ORDER BY pk

-- @query S14_order_by_pk_descending ordered
SELECT pk FROM or_t ORDER BY pk DESC LIMIT 20
-- @expect
399
398
397
396
395
394
393
392
391
390
389
388
387
386
385
384
383
382
381
380

-- @query S14_order_by_prefix_then_other ordered rows=80
SELECT g, v, pk FROM or_t WHERE g < 2 ORDER BY g, v, pk

-- @query S14_order_by_prefix_and_key_string ordered
SELECT s, p FROM or_range WHERE pk BETWEEN 55 AND 65 ORDER BY s, p
-- @expect
k0055	0
k0055	1
k0056	0
k0056	1
k0057	0
k0057	1
k0058	0
k0058	1
k0059	0
k0059	1
k0060	1
k0060	2
k0061	1
k0061	2
k0062	1
k0062	2
k0063	1
k0063	2
k0064	1
k0064	2
k0065	1
k0065	2

-- @query S14_group_by_two_prefixes ordered
SELECT g, pk, count(*) FROM or_range WHERE pk > 100 OR pk BETWEEN 29 AND 31 GROUP BY g, pk ORDER BY g, pk
-- @expect
2	29	1
3	30	2
3	31	2
10	101	1
10	102	1
10	103	1
10	104	1
10	105	1
10	106	1
10	107	1
10	108	1
10	109	1
11	110	1
11	111	1
11	112	1
11	113	1
11	114	1
11	115	1
11	116	1
11	117	1
11	118	1
11	119	1

-- @query S14_group_by_partition_and_prefix ordered
SELECT p, g, count(*) FROM or_range GROUP BY p, g ORDER BY p, g
-- @expect
0	0	10
0	1	10
0	2	10
0	3	10
0	4	10
0	5	10
1	3	10
1	4	10
1	5	10
1	6	10
1	7	10
1	8	10
2	6	10
2	7	10
2	8	10
2	9	10
2	10	10
2	11	10

-- @query S14_distinct_prefix ordered
SELECT DISTINCT g FROM or_range ORDER BY g DESC
-- @expect
11
10
9
8
7
6
5
4
3
2
1
0

-- @query S14_distinct_sorted_limit ordered
SELECT DISTINCT pk FROM or_range ORDER BY pk LIMIT 5 OFFSET 28
-- @expect
28
29
30
31
32

-- @query S14_window_over_sorted
SELECT count(*), sum(r) FROM (SELECT row_number() OVER (PARTITION BY g ORDER BY pk, p) AS r FROM or_range) q
-- @expect
180	1590

-- @query S14_window_running_sum ordered
SELECT pk, sum(v) OVER (ORDER BY pk) FROM or_t ORDER BY pk LIMIT 5
-- @expect
0	0
1	1
2	3
3	6
4	10

-- @query S14_sort_merge_join ordered
-- @set datafusion.optimizer.prefer_hash_join=false
SELECT t.pk, count(*) FROM or_t t JOIN or_range r ON t.pk = r.pk GROUP BY t.pk ORDER BY t.pk LIMIT 4 OFFSET 28
-- @expect
28	1
29	1
30	2
31	2

-- @query S14_union_sorted ordered
SELECT pk FROM (SELECT pk FROM or_t WHERE pk < 5 UNION ALL SELECT pk FROM or_range WHERE pk < 3) u ORDER BY pk
-- @expect
0
0
1
1
2
2
3
4

-- @query S14_first_last_per_group ordered
SELECT g, first_value(pk ORDER BY pk), last_value(pk ORDER BY pk) FROM or_range GROUP BY g ORDER BY g LIMIT 3
-- @expect
0	0	9
1	10	19
2	20	29

-- @query S14_having_order ordered
SELECT g, sum(v) FROM or_t GROUP BY g HAVING count(*) = 40 ORDER BY g DESC LIMIT 2
-- @expect
9	123
8	119

-- @query S14_semi_join_order ordered
SELECT pk FROM or_t WHERE pk IN (SELECT pk FROM or_range WHERE p = 2) ORDER BY pk LIMIT 3
-- @expect
60
61
62

-- @query S14_full_join_order ordered
SELECT t.pk, r.pk FROM or_t t FULL JOIN (SELECT DISTINCT pk + 395 AS pk FROM or_range WHERE pk < 8) r ON t.pk = r.pk WHERE t.pk > 392 OR t.pk IS NULL ORDER BY coalesce(t.pk, r.pk)
-- @expect
393	NULL
394	NULL
395	395
396	396
397	397
398	398
399	399
NULL	400
NULL	401
NULL	402

-- @query order_multi_direction ordered rows=60
SELECT g, v, pk FROM or_t WHERE pk < 60 ORDER BY g DESC, v, pk DESC

-- @query order_by_aggregate_expression ordered
SELECT v, count(*) AS c FROM or_t GROUP BY v ORDER BY c DESC, v
-- @expect
0	58
1	57
2	57
3	57
4	57
5	57
6	57

-- @query order_by_in_subquery_is_harmless
SELECT count(*) FROM (SELECT pk FROM or_t ORDER BY pk DESC) q
-- @expect
400

-- @query order_string_keys ordered
SELECT s FROM or_range WHERE p = 1 ORDER BY s DESC LIMIT 3
-- @expect
k0089
k0088
k0087
