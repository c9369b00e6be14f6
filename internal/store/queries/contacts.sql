-- name: ContactCreate :one
INSERT INTO contacts (account_id, name, email, group_name, phone_primary, phone_secondary, created, updated)
VALUES (@account_id, @name, @email, nullif(@group_name::text, ''), nullif(@phone_primary::text, ''), nullif(@phone_secondary::text, ''), @created, @created)
RETURNING id;

-- name: ContactUpdate :execrows
UPDATE contacts SET name = @name, email = @email, group_name = nullif(@group_name::text, ''),
                    phone_primary = nullif(@phone_primary::text, ''), phone_secondary = nullif(@phone_secondary::text, ''), updated = @updated
WHERE account_id = @account_id AND id = @id;

-- name: ContactDelete :execrows
DELETE FROM contacts WHERE account_id = @account_id AND id = @id;
