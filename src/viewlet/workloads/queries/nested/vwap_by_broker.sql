-- VWAP of every broker: nested SUMs correlated by equality and inequality; an entry is found anew in O(log n).
SELECT b.broker_id, SUM(b.price * b.volume) AS q
FROM bids b
WHERE 0.25 * (SELECT SUM(b1.volume) FROM bids b1 WHERE b1.broker_id = b.broker_id)
        > (SELECT SUM(b2.volume) FROM bids b2 WHERE b2.broker_id = b.broker_id AND b2.price > b.price)
GROUP BY b.broker_id;
