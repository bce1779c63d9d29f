-- Equality-correlated nested SUM; O(1) with a PAI map. Table r(a, b).
SELECT SUM(r.a * r.b) AS q
FROM r
WHERE 0.5 * (SELECT SUM(r1.b) FROM r r1) = (SELECT SUM(r2.b) FROM r r2 WHERE r2.a = r.a);
