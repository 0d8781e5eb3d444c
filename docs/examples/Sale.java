import java.io.IOException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.function.Consumer;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A sale from start to end, as a shop drives it; it needs Java 11 or later, and no library.
 *
 * <p>usage: java Sale.java SKU BUYERS
 *
 * <p>It creates a sale, lets so many buyers order one unit each, pays the first order, cancels the
 * second, pays back the second one's money, which comes too late, shows the lists, begins the next
 * round, and hears from the feed of events which orders have expired by that. SALE_URL,
 * SALE_ADMIN_URL, SALE_ADMIN_TOKEN_FILE and SALE_SHOP_TOKEN_FILE are those of sale.py.
 */
class Sale {
    static final String URL = variable("SALE_URL", "http://127.0.0.1:8080");
    static final String ADMIN_URL = variable("SALE_ADMIN_URL", URL);
    static final String ADMIN = token(variable("SALE_ADMIN_TOKEN_FILE", "run/admin.token"));
    static final String SHOP = token(variable("SALE_SHOP_TOKEN_FILE", ""));
    static final Duration TRY = Duration.ofSeconds(5); // more than the service takes, 4 s at most
    static final long LOST_S = 3; // before the next try, if no answer came: more than deadline_ms
    static final Duration GIVE_UP = Duration.ofSeconds(60); // choose what a buyer waits for
    static final HttpClient CLIENT = HttpClient.newBuilder().connectTimeout(TRY).build();

    /** The service has decided: no. The code is stable. */
    static class Refused extends Exception {
        final String code;

        Refused(int status, String problem) {
            super(status + " " + problem);
            code = field(problem, "code");
        }
    }

    /** No decision within GIVE_UP: the call may have been carried out. Repeat it later. */
    static class Undecided extends RuntimeException {
        Undecided(String what) {
            super(what);
        }
    }

    /** Repeats the very same request until the service has decided. That is safe for every call
     * that carries a key, and for those that are harmless to repeat by nature. */
    static String call(String method, String url, String body, String key, String token)
            throws Refused, InterruptedException {
        var request = HttpRequest.newBuilder(URI.create(url)).timeout(TRY)
            .method(method, body == null ? BodyPublishers.noBody() : BodyPublishers.ofString(body));
        if (body != null) request.header("Content-Type", "application/json");
        if (key != null) request.header("Idempotency-Key", key);
        if (token != null) request.header("Authorization", "Bearer " + token);
        long end = System.nanoTime() + GIVE_UP.toNanos();
        while (true) {
            long waitS = LOST_S;
            try {
                HttpResponse<String> answer = CLIENT.send(request.build(), BodyHandlers.ofString());
                int status = answer.statusCode();
                if (status / 100 == 2) return answer.body();
                if (status / 100 == 4 && status != 408 && status != 429)
                    throw new Refused(status, answer.body());
                waitS = answer.headers().firstValueAsLong("Retry-After").orElse(LOST_S);
            } catch (IOException lost) { // refused, reset, cut off, or too late: ask again
            }
            if (System.nanoTime() + waitS * 1_000_000_000 > end)
                throw new Undecided(method + " " + url);
            Thread.sleep(waitS * 1000);
        }
    }

    static String admin(String method, String path, String body, String key) throws Exception {
        return call(method, ADMIN_URL + path, body, key, ADMIN);
    }

    /** Creates the sale, or finds it as an earlier run has created it. */
    static String createSale(String sku, int total) throws Exception {
        return admin("POST", "/admin/stock/reset", String.format(
            "{\"sku\":\"%s\",\"total\":%d,\"segments\":4,\"per_user_limit\":2,"
                + "\"pay_within_s\":900,\"if_round\":0}", sku, total), "create-" + sku);
    }

    /** The order, or null when it was refused. The shop has stored purchaseId before. */
    static String buy(String purchaseId, String sku, String userId, int qty) throws Exception {
        String body = String.format(
            "{\"sku\":\"%s\",\"user_id\":\"%s\",\"qty\":%d}", sku, userId, qty);
        try {
            return call("POST", URL + "/order", body, purchaseId, null);
        } catch (Refused refused) {
            return null; // refused.code says why
        }
    }

    /** True when the order is paid: now the shop may capture the money. False: the shop owes the
     * money back, and the service lists the payment as refund_due. The shop has stored the ref. */
    static boolean pay(String orderId, String ref) throws Exception {
        String body = String.format("{\"payment_ref\":\"%s\"}", ref);
        return change(orderId, "pay", body, List.of("payment_too_late", "already_paid"));
    }

    /** True when the order is cancelled: its unit is on sale again. */
    static boolean cancel(String orderId) throws Exception {
        return change(orderId, "cancel", null, List.of("invalid_state"));
    }

    static boolean change(String orderId, String how, String body, List<String> no)
            throws Exception {
        try {
            call("POST", URL + "/order/" + orderId + "/" + how, body, null, SHOP);
            return true;
        } catch (Refused refused) {
            if (no.contains(refused.code)) return false;
            throw refused;
        }
    }

    /** Returns how many payments. Either step may be repeated, so a run that dies between them does
     * no harm: the service lists the payment until it hears of the refund. */
    static int payBackWhatIsDue(String sku) throws Exception {
        List<String> orders = new ArrayList<>(), refs = new ArrayList<>();
        forPages(URL + "/payments?state=refund_due&sku=" + sku, SHOP, page -> {
            orders.addAll(fields(page, "order_id"));
            refs.addAll(fields(page, "payment_ref"));
        });
        for (int i = 0; i < refs.size(); i++) {
            askProviderToRefund(refs.get(i), orders.get(i) + ":" + refs.get(i) + ":0");
            change(orders.get(i), "refund", String.format(
                "{\"payment_ref\":\"%s\",\"restock\":false}", refs.get(i)), List.of());
        }
        return refs.size();
    }

    /** Here a shop calls its payment provider, with the ref as the idempotency key. */
    static void askProviderToRefund(String ref, String key) {}

    /** How many orders a user has in a sale. */
    static int countOrders(String userId, String sku) throws Exception {
        String user = URLEncoder.encode(userId, StandardCharsets.UTF_8);
        return countPages(URL + "/user/" + user + "/orders?sku=" + sku, SHOP);
    }

    /** How many orders a list has. */
    static int countPages(String url, String token) throws Exception {
        List<String> orders = new ArrayList<>();
        forPages(url, token, page -> orders.addAll(fields(page, "order_id")));
        return orders.size();
    }

    /** The pages of a list, which go on while they name a next one. */
    static void forPages(String url, String token, Consumer<String> read) throws Exception {
        for (String after = ""; after != null; ) {
            String page = call("GET", url + after, null, null, token);
            read.accept(page);
            String next = field(page, "next");
            after = next == null
                ? null : "&after=" + URLEncoder.encode(next, StandardCharsets.UTF_8);
        }
    }

    /** Ends the sale, then begins a round without orders until the operator resumes it. */
    static String nextRound(String sku, int total, String round) throws Exception {
        admin("PATCH", "/admin/sale/" + sku, "{\"paused\":true}", null);
        return admin("POST", "/admin/stock/reset", String.format(
            "{\"sku\":\"%s\",\"total\":%d,\"segments\":4,\"paused\":true,\"if_round\":%s,"
                + "\"end_round\":true}", sku, total, round), "end-" + sku + "-" + round);
    }

    /** Follows the feed until none of the orders is reserved; how many have expired. A shop commits
     * the cursor, next, together with what the events change, as sale.py does. */
    static int waitForExpiries(List<String> orders) throws Exception {
        List<String> ends = List.of("order.paid", "order.cancelled", "order.expired");
        Set<String> reserved = new HashSet<>(orders);
        int expired = 0;
        for (String after = ""; !reserved.isEmpty(); ) {
            String page = call("GET", URL + "/events?wait_s=2" + after, null, null, SHOP);
            List<String> types = fields(page, "type"), subjects = fields(page, "subject");
            for (int i = 0; i < types.size(); i++)
                if (ends.contains(types.get(i)) && reserved.remove(subjects.get(i))
                        && types.get(i).equals("order.expired")) expired++;
            after = "&after=" + field(page, "next");
        }
        return expired;
    }

    static String buyer(int i) {
        return "buyer-" + i + "@example.com";
    }

    public static void main(String[] args) throws Exception {
        String sku = args[0];
        int buyers = Integer.parseInt(args[1]);
        String sale = createSale(sku, buyers);
        System.out.printf("round %s of %s: %d units%n", field(sale, "round"), sku, buyers);

        List<String> orders = new ArrayList<>();
        for (int i = 0; i < buyers; i++)
            orders.add(field(buy(sku + "-" + i, sku, buyer(i), 1), "order_id"));
        System.out.println("orders " + String.join(" ", orders));
        if (buy(sku + "-late", sku, "late@example.com", 1) != null)
            throw new IllegalStateException("more than there are");
        System.out.println("paid " + pay(orders.get(0), "pi-" + sku + "-0"));
        System.out.println("cancelled " + cancel(orders.get(1)));
        System.out.println("paid after the cancel " + pay(orders.get(1), "pi-" + sku + "-1"));
        System.out.println("paid back " + payBackWhatIsDue(sku));

        String order = call("GET", URL + "/order/" + orders.get(0), null, null, null);
        System.out.println("order " + field(order, "order_id") + " is " + field(order, "status"));
        System.out.println("buyer-0 has " + countOrders(buyer(0), sku) + " order");
        String stock = call("GET", URL + "/stock/" + sku, null, null, null);
        System.out.println("sold " + field(stock, "sold") + " as of " + field(stock, "as_of"));
        int sold = countPages(ADMIN_URL + "/admin/orders?limit=1000&sku=" + sku, ADMIN);
        System.out.println("exported " + sold + " orders");
        String next = nextRound(sku, buyers, field(sale, "round"));
        System.out.println("round " + field(next, "round") + " waits for the operator");
        System.out.println("expired " + waitForExpiries(orders) + " orders");
    }

    // What a JSON library does in a shop: the first member of that name, a text or a number.

    static Pattern member(String name) {
        return Pattern.compile("\"" + name + "\":\\s*\"?([^\",}\\]]*)");
    }

    static String field(String json, String name) {
        Matcher found = member(name).matcher(json);
        return found.find() ? found.group(1) : null;
    }

    static List<String> fields(String json, String name) {
        List<String> found = new ArrayList<>();
        for (Matcher one = member(name).matcher(json); one.find(); ) found.add(one.group(1));
        return found;
    }

    static String variable(String name, String otherwise) {
        return System.getenv().getOrDefault(name, otherwise);
    }

    static String token(String file) {
        try {
            return file.isEmpty() ? null : Files.readAllLines(Path.of(file)).get(0).trim();
        } catch (IOException error) {
            throw new IllegalArgumentException(error);
        }
    }
}
