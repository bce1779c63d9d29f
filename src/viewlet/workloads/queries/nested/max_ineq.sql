-- Inequality-correlated nested MAX; O(log n).
SELECT SUM(b.price * b.volume) AS q
FROM bids b
WHERE 0.75 * (SELECT SUM(b1.volume) FROM bids b1)
        < (SELECT MAX(b2.volume) FROM bids b2 WHERE b2.price <= b.price);
