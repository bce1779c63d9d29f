SELECT
    auction, bidder, price, channel,
    CASE
        WHEN LOWER(channel) = 'apple' THEN '0'
        WHEN LOWER(channel) = 'google' THEN '1'
        WHEN LOWER(channel) = 'facebook' THEN '2'
        WHEN LOWER(channel) = 'baidu' THEN '3'
        ELSE SPLIT_PART(SPLIT_PART(url, 'channel_id=', 2), '&', 1)
    END AS channel_id
FROM bid
WHERE url LIKE '%channel_id=%' OR LOWER(channel) IN ('apple', 'google', 'facebook', 'baidu');
