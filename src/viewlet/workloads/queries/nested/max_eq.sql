-- Equality-correlated nested MAX; O(log n). Table r(a, b).
SELECT SUM(r.a * r.b) AS q
FROM r
WHERE 0.75 * (SELECT SUM(r1.b) FROM r r1) = (SELECT MAX(r2.b) FROM r r2 WHERE r2.a = r.a);
