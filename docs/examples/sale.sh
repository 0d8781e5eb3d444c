#!/bin/bash
# A sale from start to end, as a shop drives it; it needs curl (7.71 or later) and jq.
#
# usage: sale.sh SKU BUYERS
#
# It creates a sale, lets so many buyers order one unit each, pays the first order, cancels the
# second, pays back the second one's money, which comes too late, shows the lists, begins the next
# round, and hears from the feed of events which orders have expired by that. SALE_URL,
# SALE_ADMIN_URL, SALE_ADMIN_TOKEN_FILE and SALE_SHOP_TOKEN_FILE are those of sale.py.
set -euo pipefail

readonly URL=${SALE_URL:-http://127.0.0.1:8080}
readonly ADMIN_URL=${SALE_ADMIN_URL:-$URL}
readonly ADMIN_TOKEN_FILE=${SALE_ADMIN_TOKEN_FILE:-run/admin.token}
readonly SHOP_TOKEN_FILE=${SALE_SHOP_TOKEN_FILE:-}
answer=$(mktemp)
trap 'rm -f "$answer"' EXIT

# Repeats the very same request until the service has decided. curl repeats after a lost connection,
# a time-out, 408, 429 and 5xx. One try has 5 s, more than the service takes for any call, 4 s. curl
# waits as Retry-After says, or 3 s if no answer came: more than the service's deadline_ms, 2 s.
# Sets status; the answer is in the file $answer.
call() {
    local method=$1 url=$2
    shift 2
    status=$(curl -s -X "$method" "$url" -o "$answer" -w '%{http_code}' --max-time 5 \
        --retry 60 --retry-all-errors --retry-delay 3 --retry-max-time 60 "$@") || status=000
    if ((10#$status < 200 || 10#$status >= 500)); then
        echo "$method $url: no decision in 60 s; it may have been carried out: repeat it later" >&2
        exit 75
    fi
}

# For calls that no refusal is expected of.
must() {
    call "$@"
    if ((status >= 300)); then
        echo "$1 $2: $status $(cat "$answer")" >&2
        exit 1
    fi
}

# Tokens stand in files: an argument could be seen by other users of the machine.
bearer() {
    if [[ -n $1 ]]; then
        echo "Authorization: Bearer $(head -n 1 "$1")"
    fi
}

admin() {
    local method=$1 path=$2
    shift 2
    must "$method" "$ADMIN_URL$path" -H @<(bearer "$ADMIN_TOKEN_FILE") \
        -H 'Content-Type: application/json' "$@"
}

shop() {
    local method=$1 path=$2
    shift 2
    must "$method" "$URL$path" -H @<(bearer "$SHOP_TOKEN_FILE") "$@"
}

# Creates the sale, or finds it as an earlier run has created it.
create_sale() {
    admin POST /admin/stock/reset -H "Idempotency-Key: create-$1" -d "{\"sku\":\"$1\",\"total\":$2,
        \"segments\":4,\"per_user_limit\":2,\"pay_within_s\":900,\"if_round\":0}"
}

# buy PURCHASE SKU USER: the shop has stored the purchase before. Sets status and order.
buy() {
    call POST "$URL/order" -H "Idempotency-Key: $1" -H 'Content-Type: application/json' \
        -d "{\"sku\":\"$2\",\"user_id\":\"$3\",\"qty\":1}"
    order=$(jq -r '.order_id // .code' "$answer")
}

# pay ORDER REF: the shop has stored the ref before. Sets paid: to true when the order is paid, to
# false when the shop owes the money back. Then the service lists the payment as refund_due.
pay() {
    call POST "$URL/order/$1/pay" -H @<(bearer "$SHOP_TOKEN_FILE") \
        -H 'Content-Type: application/json' -d "{\"payment_ref\":\"$2\"}"
    case $status-$(jq -r '.code // ""' "$answer") in
    200-) paid=true ;;
    409-payment_too_late | 409-already_paid) paid=false ;;
    *) cat "$answer" >&2 && exit 1 ;;
    esac
}

# Here a shop calls its payment provider to pay the ref $1 back, with the idempotency key $2, and
# goes on when that has succeeded.
ask_provider_to_refund() { :; }

# Either step may be repeated: the service lists a payment until it hears of its refund. Sets
# paid_back to how many were.
pay_back_what_is_due() {
    local sku=$1 after='' due=() payment order ref
    while :; do
        shop GET "/payments?sku=$sku&state=refund_due$after"
        mapfile -t -O ${#due[@]} due < <(
            jq -r '.payments[] | "\(.order_id) \(.payment_ref)"' "$answer")
        after=$(next_page)
        [[ -n $after ]] || break
    done
    for payment in "${due[@]}"; do
        read -r order ref <<<"$payment"
        ask_provider_to_refund "$ref" "$order:$ref:0" # 0 units remain
        shop POST "/order/$order/refund" -H 'Content-Type: application/json' \
            -d "{\"payment_ref\":\"$ref\",\"restock\":false}"
    done
    paid_back=${#due[@]}
}

# What the next page wants behind the query; nothing after the last page.
next_page() {
    jq -r 'if .next then "&after=" + (.next | @uri) else "" end' "$answer"
}

# Ends the sale, then begins a round that nobody can order in before the operator resumes it.
next_round() {
    admin PATCH "/admin/sale/$1" -d '{"paused":true}'
    admin POST /admin/stock/reset -H "Idempotency-Key: end-$1-$3" -d "{\"sku\":\"$1\",\"total\":$2,
        \"segments\":4,\"paused\":true,\"if_round\":$3,\"end_round\":true}"
}

# Follows the feed until none of the orders is reserved; sets expired to how many have expired. A
# shop commits the cursor, next, together with what the events change, as sale.py does.
wait_for_expiries() {
    local after='' type subject
    local -A reserved=()
    for subject; do
        reserved[$subject]=yes
    done
    expired=0
    while ((${#reserved[@]} > 0)); do
        shop GET "/events?wait_s=2$after"
        while read -r type subject; do
            [[ $type =~ ^order.(paid|cancelled|expired)$ && -n ${reserved[$subject]-} ]] || continue
            unset "reserved[$subject]"
            [[ $type != order.expired ]] || ((expired += 1))
        done < <(jq -r '.events[] | "\(.type) \(.subject)"' "$answer")
        after="&after=$(jq -r .next "$answer")"
    done
}

readonly SKU=$1 BUYERS=$2
create_sale "$SKU" "$BUYERS"
round=$(jq .round "$answer")
echo "round $round of $SKU: $BUYERS units"

orders=()
for ((i = 0; i < BUYERS; i++)); do
    buy "$SKU-$i" "$SKU" "buyer-$i@example.com"
    ((status < 300)) || exit 1
    orders+=("$order")
done
echo "orders ${orders[*]}"
buy "$SKU-late" "$SKU" late@example.com
[[ "$status $order" == "409 sold_out" ]]
pay "${orders[0]}" "pi-$SKU-0"
echo "paid $paid"
shop POST "/order/${orders[1]}/cancel"
echo "cancelled $(jq '.status == "cancelled"' "$answer")"
pay "${orders[1]}" "pi-$SKU-1"
echo "paid after the cancel $paid"
pay_back_what_is_due "$SKU"
echo "paid back $paid_back"

shop GET "/order/${orders[0]}"
echo "order $(jq -r .order_id "$answer") is $(jq -r .status "$answer")"
shop GET "/user/buyer-0%40example.com/orders?sku=$SKU"
echo "buyer-0 has $(jq '.orders | length' "$answer") order"
shop GET "/stock/$SKU"
echo "sold $(jq .sold "$answer") as of $(jq -r .as_of "$answer")"
# Pages go on while they name a next one.
exported=0 after=''
while :; do
    admin GET "/admin/orders?sku=$SKU&limit=1000$after"
    exported=$((exported + $(jq '.orders | length' "$answer")))
    after=$(next_page)
    [[ -n $after ]] || break
done
echo "exported $exported orders"
next_round "$SKU" "$BUYERS" "$round"
echo "round $(jq .round "$answer") waits for the operator"
wait_for_expiries "${orders[@]}"
echo "expired $expired orders"
