-- The running example of the work on provenance sketches.
SELECT brand, SUM(price * num_sold) AS rev
FROM sales
GROUP BY brand
HAVING SUM(price * num_sold) > 5000;
