-- The events of Nexmark: people, the auctions they open, the bids they make; and the side input of q13.
CREATE TABLE person (
    id BIGINT NOT NULL,
    name VARCHAR NOT NULL,
    email_address VARCHAR NOT NULL,
    credit_card VARCHAR NOT NULL,
    city VARCHAR NOT NULL,
    state VARCHAR NOT NULL,
    date_time TIMESTAMP NOT NULL,
    extra VARCHAR NOT NULL,
    PRIMARY KEY (id)
);
CREATE TABLE auction (
    id BIGINT NOT NULL,
    item_name VARCHAR NOT NULL,
    description VARCHAR NOT NULL,
    initial_bid BIGINT NOT NULL,
    reserve BIGINT NOT NULL,
    date_time TIMESTAMP NOT NULL,
    expires TIMESTAMP NOT NULL,
    seller BIGINT NOT NULL,
    category BIGINT NOT NULL,
    extra VARCHAR NOT NULL,
    PRIMARY KEY (id)
);
CREATE TABLE bid (
    auction BIGINT NOT NULL,
    bidder BIGINT NOT NULL,
    price BIGINT NOT NULL,
    channel VARCHAR NOT NULL,
    url VARCHAR NOT NULL,
    date_time TIMESTAMP NOT NULL,
    extra VARCHAR NOT NULL
);
CREATE TABLE side_input (
    key BIGINT NOT NULL,
    value VARCHAR NOT NULL
);
