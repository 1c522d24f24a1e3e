import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Date;
import java.util.TimeZone;
import org.quartz.CronExpression;

/**
 * Answers questions with Quartz. Each line of the input is a spec, a zone, an instant (Unix ms) and
 * a count, separated by tabs. Each line of the output lists the following instants, separated by
 * blanks, or "error" and the reason.
 */
public final class Oracle {
  private Oracle() {}

  public static void main(String[] args) throws Exception {
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      out.println(answer(line.split("\t")));
    }
    out.flush();
  }

  private static String answer(String[] question) {
    try {
      CronExpression cron = new CronExpression(question[0]);
      cron.setTimeZone(TimeZone.getTimeZone(question[1]));
      Date at = new Date(Long.parseLong(question[2]));
      StringBuilder found = new StringBuilder();
      for (int n = Integer.parseInt(question[3]); n > 0; n--) {
        at = cron.getTimeAfter(at);
        if (at == null) {
          break;
        }
        found.append(found.length() == 0 ? "" : " ").append(at.getTime());
      }
      return found.toString();
    } catch (Exception e) {
      return "error " + e.getMessage();
    }
  }
}
