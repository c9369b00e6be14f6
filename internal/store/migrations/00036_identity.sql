-- +goose Up
-- What tells this store from others: places that are one store's alone are marked with it.
CREATE TABLE identity (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    id  text    NOT NULL
);
INSERT INTO identity (id) VALUES (gen_random_uuid()::text);

-- +goose Down
DROP TABLE identity;
